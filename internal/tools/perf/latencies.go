// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	slowestNS        = int64(time.Minute)
	histogramDigits  = 3
	typicalQuantile  = 50
	longTailQuantile = 99.9
)

// latencies collects one-way times.
type latencies struct {
	h   *hdrhistogram.Histogram // nanoseconds
	max int64
}

func newLatencies() *latencies {
	return &latencies{h: hdrhistogram.New(1, slowestNS, histogramDigits)}
}

// add records one time. A time beyond the histogram's range counts as the slowest in it.
func (l *latencies) add(d time.Duration) {
	ns := min(max(int64(d), 1), slowestNS)
	l.max = max(l.max, ns)
	_ = l.h.RecordValue(ns) // in range by the line above
}

// LatResult is one line of a latency table, in microseconds.
type LatResult struct {
	Size      int     `json:"bytes"`
	Count     int64   `json:"iterations"`
	Min       float64 `json:"t_min_usec"`
	Max       float64 `json:"t_max_usec"`
	Typical   float64 `json:"t_typical_usec"`
	Avg       float64 `json:"t_avg_usec"`
	StdDev    float64 `json:"t_stdev_usec"`
	P99       float64 `json:"percentile_99_usec"`
	P999      float64 `json:"percentile_99_9_usec"`
	PerSecond float64 `json:"transactions_per_second"`
	// Lost is the number of messages without an answer, on a service that may lose some.
	Lost int64 `json:"lost,omitempty"`
}

func (l *latencies) result(size int, took time.Duration) LatResult {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return LatResult{
		Size: size, Count: l.h.TotalCount(), Min: us(l.h.Min()), Max: us(l.max),
		Typical: us(l.h.ValueAtQuantile(typicalQuantile)), Avg: l.h.Mean() / 1e3,
		StdDev: l.h.StdDev() / 1e3, P99: us(l.h.ValueAtQuantile(99)),
		P999:      us(l.h.ValueAtQuantile(longTailQuantile)),
		PerSecond: float64(l.h.TotalCount()) / max(took, 1).Seconds(),
	}
}
