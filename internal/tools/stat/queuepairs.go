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

// queuePairColumns are the columns of printQueuePairs. Those from firstNumber on are numbers.
var queuePairColumns = table.Row{"queue pair", "type", "state", "via", "peer", "send psn",
	"recv psn", "sends", "receives", "outstanding", "credits", "retries left", "naks", "sent",
	"received"}

const firstNumber = 5

// pathColumns are the columns of printPaths.
var pathColumns = table.Row{"path of", "rtt", "least rtt", "window", "pace", "in flight", "lost",
	"repeated", "marked", "notified"}

// printQueuePairs prints a line for each queue pair, and one for each path that is measured. Bytes
// are totals, or rates if there is a snapshot before.
func printQueuePairs(w io.Writer, s *stats.Snapshot, d stats.Device, before *rates) {
	t := numbersFrom(newTable(w), queuePairColumns, firstNumber)
	paths := numbersFrom(newTable(w), pathColumns, 1)
	for _, q := range d.QueuePairs {
		row := table.Row{number(q.QPN), q.Type, q.State, via(q), peer(q), number(q.SQPSN),
			number(q.RQPSN), q.Sends, q.Recvs}
		row = append(append(row, flow(q)...), naks(q))
		for _, name := range []string{"sent_bytes", "rcvd_bytes"} {
			row = append(row, before.ofQueuePair(s, d.Name, q, name))
		}
		t.AppendRow(row)
		if p := q.Path; p != nil {
			paths.AppendRow(table.Row{number(q.QPN), short(p.RTT), short(p.MinRTT),
				size(p.WindowBytes, "B"), size(p.PaceRate, "B/s"), size(p.InFlight, "B"), p.Lost,
				p.Repeated, p.Marked, p.Notified})
		}
	}
	t.Render()
	if paths.Length() > 0 {
		paths.Render()
	}
}

// numbersFrom gives a table its header. The columns from n on are numbers.
func numbersFrom(t table.Writer, header table.Row, n int) table.Writer {
	t.AppendHeader(header)
	t.Style().Format.Header = text.FormatDefault
	var right []table.ColumnConfig
	for i := n; i < len(header); i++ {
		right = append(right,
			table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}

// number shows a number of 24 bits.
func number(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// flow returns the columns from outstanding to the retries left.
func flow(q stats.QueuePair) table.Row {
	f := q.Flow
	if f == nil {
		return table.Row{"-", "-", "-"}
	}
	credits := "-" // the peer does not say
	if f.Credits >= 0 {
		credits = fmt.Sprint(f.Credits)
	}
	return table.Row{f.Outstanding, credits, f.Retries}
}

// naks returns how many NAKs of any kind the queue pair has received.
func naks(q stats.QueuePair) (n uint64) {
	return q.Count("rcvd_seq_err") + q.Count("rcvd_rnr_err") + q.Count("rcvd_error_nak") +
		q.Count("rcvd_terminate")
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
		return q.Peer.Addr().String() + " " + number(q.PeerQPN)
	case q.Peer.IsValid():
		return q.Peer.String()
	case q.PeerQPN != 0:
		return number(q.PeerQPN)
	}
	return "-"
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
