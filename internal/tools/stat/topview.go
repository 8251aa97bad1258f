// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/tview"

	"verbena/internal/stats"
)

// order says by which column the lines of a view are sorted.
type order int

const (
	byTraffic order = iota // bytes a second, the most first
	byTrouble              // troubles a second, the most first
	byNumber               // process id, or queue pair number
)

var orderNames = [...]string{"traffic", "trouble", "process"}

// troubles are the counters that grow when a path or a peer is not well.
var troubles = []string{"lost_pkts", "retransmitted_pkts", "rcvd_seq_err", "rcvd_rnr_err",
	"rcvd_error_nak", "local_ack_timeout_err", "retry_exceeded_err", "retry_rnr_exceeded_err",
	"rcvd_terminate", "mpa_crc_errors", "bad_icrc", "dropped_no_recv"}

// view says which lines are shown, and in which order.
type view struct {
	of    *process // whose queue pairs are shown; nil: processes
	order order
	match string // a part of a shown cell; empty: all
}

// line is one row: a device of a process, or a queue pair.
type line struct {
	of               process
	key              string // the same at each poll
	number           int
	traffic, trouble float64 // a second
	cells            []string
}

var (
	topProcessColumns = []string{"pid", "command", "device", "qps", "sent", "received",
		"trouble", "rtt"}
	topPairColumns = []string{"queue pair", "state", "via", "peer", "sent", "received", "out",
		"trouble", "rtt"}
)

// Columns with a number, which stand to the right.
const (
	firstProcessNumber = 3
	firstPairNumber    = 4
)

// align returns the alignment of a column.
func (v *view) align(column int) int {
	first := firstProcessNumber
	if v.of != nil {
		first = firstPairNumber
	}
	if column >= first {
		return tview.AlignRight
	}
	return tview.AlignLeft
}

// title returns the line above the table.
func (v *view) title(all []stats.Snapshot, now time.Time) string {
	what := fmt.Sprintf("%d processes", len(all))
	if v.of != nil {
		what = fmt.Sprintf("process %d: %s", v.of.pid, v.of.command)
		if !slices.ContainsFunc(all, func(s stats.Snapshot) bool {
			return processOf(&s) == *v.of
		}) {
			what += " has ended"
		}
	}
	return fmt.Sprintf(" verbena top %s  %s  by %s", now.Format(time.TimeOnly), what,
		orderNames[v.order])
}

// lines returns the columns and the rows, in their order.
func (v *view) lines(all []stats.Snapshot, before *rates) (header []string, rows []line) {
	header = topProcessColumns
	if v.of != nil {
		header = topPairColumns
	}
	for i := range all {
		s := &all[i]
		for _, d := range s.Devices {
			switch {
			case v.of == nil:
				rows = append(rows, deviceLine(s, d, before))
			case processOf(s) == *v.of:
				for _, q := range d.QueuePairs {
					rows = append(rows, pairLine(s, d, q, before))
				}
			}
		}
	}
	rows = slices.DeleteFunc(rows, func(l line) bool {
		return !slices.ContainsFunc(l.cells, func(c string) bool {
			return strings.Contains(strings.ToLower(c), strings.ToLower(v.match))
		})
	})
	slices.SortFunc(rows, func(a, b line) int {
		switch v.order {
		case byTraffic:
			if c := cmp.Compare(b.traffic, a.traffic); c != 0 {
				return c
			}
		case byTrouble:
			if c := cmp.Or(cmp.Compare(b.trouble, a.trouble),
				cmp.Compare(b.traffic, a.traffic)); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.key, b.key))
	})
	return header, rows
}

// deviceLine returns the row of a process's device.
func deviceLine(s *stats.Snapshot, d stats.Device, before *rates) line {
	rate := func(name string) float64 {
		r, _ := before.of(s, d.Name, stats.Counter{Name: name, Value: d.Count(name)})
		return r
	}
	sent, received := rate("sent_bytes"), rate("rcvd_bytes")
	trouble := 0.0
	for _, name := range troubles {
		trouble += rate(name)
	}
	var rtt time.Duration
	for _, q := range d.QueuePairs {
		if q.Path != nil {
			rtt = max(rtt, q.Path.RTT)
		}
	}
	return line{of: processOf(s), key: fmt.Sprint(s.PID, s.Command, d.Name), number: s.PID,
		traffic: sent + received, trouble: trouble,
		cells: []string{fmt.Sprint(s.PID), s.Command, d.Name, fmt.Sprint(len(d.QueuePairs)),
			size(int64(sent), "B/s"), size(int64(received), "B/s"), size(int64(trouble), "/s"),
			short(rtt)}}
}

// pairLine returns the row of a queue pair.
func pairLine(s *stats.Snapshot, d stats.Device, q stats.QueuePair, before *rates) line {
	sent, _ := before.growth(s, counter{processOf(s), d.Name, "sent_bytes", q.QPN},
		q.Count("sent_bytes"))
	received, _ := before.growth(s, counter{processOf(s), d.Name, "rcvd_bytes", q.QPN},
		q.Count("rcvd_bytes"))
	trouble, _ := before.growth(s, counter{processOf(s), d.Name, troubleName, q.QPN}, troubleOf(q))
	// 80 columns have room for short words only.
	carrier := strings.Replace(via(q), "shared-memory", "shm", 1)
	peer := "-"
	if q.Peer.IsValid() {
		peer = q.Peer.Addr().String()
	}
	out, rtt := "-", "-"
	if q.Flow != nil {
		out = fmt.Sprint(q.Flow.Outstanding)
	}
	if q.Path != nil {
		rtt = short(q.Path.RTT)
	}
	return line{of: processOf(s), key: fmt.Sprint(d.Name, q.QPN), number: int(q.QPN),
		traffic: sent + received, trouble: trouble,
		cells: []string{number(q.QPN), q.State, carrier, peer, size(int64(sent), "B/s"),
			size(int64(received), "B/s"), out, size(int64(trouble), "/s"), rtt}}
}

// troubleName names the sum of a queue pair's troubles among its rates.
const troubleName = "trouble"

// troubleOf returns the sum of a queue pair's troubles.
func troubleOf(q stats.QueuePair) (n uint64) {
	for _, name := range troubles {
		n += q.Count(name)
	}
	return n
}
