// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/stats"
)

// queuePairColumns are the columns of printQueuePairs; those from the round trip on are numbers.
var queuePairColumns = table.Row{"queue pair", "type", "state", "via", "peer", "rtt", "least rtt",
	"window", "pace", "in flight", "lost", "repeated", "marked", "notified"}

const firstNumber = 5

// printQueuePairs prints a line for each queue pair: where its packets go, and what is measured
// there.
func printQueuePairs(w io.Writer, list []stats.QueuePair) {
	t := newTable(w)
	t.AppendHeader(queuePairColumns)
	t.Style().Format.Header = text.FormatDefault
	var right []table.ColumnConfig
	for i := firstNumber; i < len(queuePairColumns); i++ {
		right = append(right,
			table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	for _, q := range list {
		row := table.Row{fmt.Sprintf("0x%06x", q.QPN), q.Type, q.State, via(q), peer(q)}
		t.AppendRow(append(row, path(q)...))
	}
	t.Render()
}

func via(q stats.QueuePair) string {
	if q.Via == "" {
		return "-"
	}
	return q.Via
}

// peer returns the peer's address and queue pair number. Those of UD are in each work request.
func peer(q stats.QueuePair) string {
	switch {
	case q.Peer.IsValid() && q.PeerQPN != 0:
		return fmt.Sprintf("%v 0x%06x", q.Peer.Addr(), q.PeerQPN)
	case q.Peer.IsValid():
		return q.Peer.String()
	case q.PeerQPN != 0:
		return fmt.Sprintf("0x%06x", q.PeerQPN)
	}
	return "-"
}

// path returns the columns from the round trip on.
func path(q stats.QueuePair) table.Row {
	row := make(table.Row, 0, len(queuePairColumns)-firstNumber)
	p := q.Path
	if p == nil {
		none := "n/a" // nothing is measured on this way
		if q.Via == "" {
			none = "-"
		}
		for range cap(row) {
			row = append(row, none)
		}
		return row
	}
	return append(row, short(p.RTT), short(p.MinRTT), size(p.WindowBytes, "B"),
		size(p.PaceRate, "B/s"), size(p.InFlight, "B"), p.Lost, p.Repeated, p.Marked, p.Notified)
}

// short returns a duration in three or four digits, "-" if there is none.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// size returns a number of bytes in powers of 1,000, "-" if there are none.
func size(n int64, unit string) string {
	switch {
	case n == 0:
		return "-"
	case n < 1e3:
		return fmt.Sprintf("%d %s", n, unit)
	case n < 1e6:
		return fmt.Sprintf("%.1f k%s", float64(n)/1e3, unit)
	case n < 1e9:
		return fmt.Sprintf("%.1f M%s", float64(n)/1e6, unit)
	}
	return fmt.Sprintf("%.1f G%s", float64(n)/1e9, unit)
}
