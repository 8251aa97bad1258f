// SPDX-License-Identifier: BSD-2-Clause

package perf

import "time"

// peakWindow is the shortest span whose rate counts as a peak.
const peakWindow = 10 * time.Millisecond

// meter counts completed messages and finds the best window.
type meter struct {
	start       time.Time
	windowStart time.Time
	bytes       int64
	windowBytes int64
	peak        float64 // bytes a second
}

func newMeter(now time.Time) meter { return meter{start: now, windowStart: now} }

// add counts bytes completed at now.
func (m *meter) add(now time.Time, bytes int64) {
	m.bytes += bytes
	m.windowBytes += bytes
	if d := now.Sub(m.windowStart); d >= peakWindow {
		m.peak = max(m.peak, float64(m.windowBytes)/d.Seconds())
		m.windowStart, m.windowBytes = now, 0
	}
}

// result returns the totals at now. A run shorter than a window has its
// average as peak.
func (m *meter) result(now time.Time, messages int64) BWResult {
	took := max(now.Sub(m.start), 1)
	average := float64(m.bytes) / took.Seconds()
	return BWResult{Messages: messages, Bytes: m.bytes, TookNS: int64(took),
		PeakBPS: int64(max(m.peak, average))}
}

// plus returns both directions together.
func (r BWResult) plus(o BWResult) BWResult {
	return BWResult{
		Messages: r.Messages + o.Messages, Bytes: r.Bytes + o.Bytes,
		TookNS: max(r.TookNS, o.TookNS), PeakBPS: r.PeakBPS + o.PeakBPS,
	}
}

// bytesPerSecond is the average.
func (r BWResult) bytesPerSecond() float64 { return float64(r.Bytes) / (float64(r.TookNS) / 1e9) }

// messagesPerSecond is the average.
func (r BWResult) messagesPerSecond() float64 {
	return float64(r.Messages) / (float64(r.TookNS) / 1e9)
}
