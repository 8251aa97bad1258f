// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/stats"
)

// printTables prints the queue pairs and the counters of every process and device. Rates since the
// snapshots before stand beside the counters that have them.
func (o *options) printTables(w io.Writer, all []stats.Snapshot, before *rates) {
	if len(all) == 0 {
		if o.filter != (filter{}) {
			fmt.Fprintln(w, "no process has such a device or queue pair")
			return
		}
		if !o.ended {
			fmt.Fprintln(w, "no process has a device open")
			return
		}
		fmt.Fprintln(w, "no process has a device open, or has ended in the last ten minutes")
		return
	}
	first := true
	for i := range all {
		s := &all[i]
		for _, d := range s.Devices {
			if !first {
				fmt.Fprintln(w)
			}
			first = false
			fmt.Fprintln(w, title(s, d))
			if len(d.QueuePairs) > 0 {
				printQueuePairs(w, s, d, before)
			}
			if o.qps && len(d.QueuePairs) == 0 {
				fmt.Fprintln(w, " (no queue pairs)")
			}
			if o.more {
				printObjects(w, s, d)
			}
			if !o.qps {
				printCounters(w, s, d, o.zeros, before)
			}
		}
	}
}

func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	return t
}

// printCounters prints the counters of a device. Those that are 0 are left out unless zeros is set.
func printCounters(w io.Writer, s *stats.Snapshot, d stats.Device, zeros bool, before *rates) {
	t := newTable(w)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight},
		{Number: 3, Align: text.AlignRight}})
	rows := 0
	for _, c := range d.Counters {
		if c.Value == 0 && !zeros {
			continue
		}
		row := table.Row{c.Name, c.Value}
		if rate, ok := before.of(s, d.Name, c); ok {
			row = append(row, fmt.Sprintf("%.0f/s", rate))
		}
		t.AppendRow(row)
		rows++
	}
	if rows == 0 {
		t.AppendRow(table.Row{"(all counters are 0)", ""})
	}
	t.Render()
}

func title(s *stats.Snapshot, d stats.Device) string {
	net := ""
	if d.NetDev != "" {
		net = " on " + d.NetDev
	}
	ended := ""
	if !s.Ended.IsZero() {
		ended = ", ended at " + s.Ended.Local().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s (%s%s), process %d: %s, verbena %s%s", d.Name, d.Kind, net, s.PID,
		s.Command, s.Version, ended)
}

// printJSON prints a line of JSON for each process.
func printJSON(w io.Writer, all []stats.Snapshot) error {
	enc := json.NewEncoder(w)
	for _, s := range all {
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	return nil
}
