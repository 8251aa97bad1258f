// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/stats"
)

// printObjects prints a line for each object of a device but its queue pairs and memory regions.
// The regions of a domain are in its line. Identifiers without a device are those of all.
func printObjects(w io.Writer, s *stats.Snapshot, d stats.Device) {
	t := newTable(w)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"object", "number", "context", "users", ""})
	for _, p := range d.PDs {
		t.AppendRow(table.Row{"protection domain", p.PDN, p.Context, p.Users, regions(d, p)})
	}
	for _, q := range d.CQs {
		t.AppendRow(table.Row{"completion queue", q.CQN, q.Context, q.Users,
			fmt.Sprintf("depth %d", q.Depth)})
	}
	for _, q := range d.SRQs {
		t.AppendRow(table.Row{"shared receive queue", q.SRQN, q.Context, q.Users,
			receives(q)})
	}
	for _, id := range s.Identifiers {
		if id.Device == d.Name || id.Device == "" {
			t.AppendRow(table.Row{"identifier", "-", "-", "-", identifier(id)})
		}
	}
	if t.Length() == 0 {
		fmt.Fprintln(w, " (no objects)")
		return
	}
	t.Render()
}

// receives returns how many receives a queue holds.
func receives(q stats.SRQ) string {
	if q.TM {
		return fmt.Sprintf("%d receives and %d with tags posted", q.Recvs, q.Tags)
	}
	return fmt.Sprintf("%d receives posted", q.Recvs)
}

// regions returns how many memory regions of those shown a domain has, and their bytes.
func regions(d stats.Device, p stats.PD) string {
	n, bytes := 0, uint64(0)
	for _, m := range d.MRs {
		if m.PDN == p.PDN && m.Context == p.Context {
			n++
			bytes += m.Length
		}
	}
	least := ""
	if d.Regions > len(d.MRs) {
		least = "at least "
	}
	unit := "memory regions"
	if n == 1 {
		unit = "memory region"
	}
	return fmt.Sprintf("%s%d %s, %s", least, n, unit, size(int64(bytes), "B"))
}

// identifier returns the state of an identifier and its addresses: "TCP listening 0.0.0.0:7174".
func identifier(id stats.Identifier) string {
	s := id.PortSpace + " " + id.State
	if id.Local.IsValid() {
		s += " " + id.Local.String()
	}
	if id.Peer.IsValid() {
		s += " to " + id.Peer.String()
	}
	if id.QPN != 0 {
		s += fmt.Sprintf(", queue pair 0x%06x", id.QPN)
	}
	return s
}
