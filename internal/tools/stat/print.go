// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/stats"
)

// only returns the snapshots with nothing but the named device; an empty name
// is every device.
func only(all []stats.Snapshot, device string) []stats.Snapshot {
	if device == "" {
		return all
	}
	var some []stats.Snapshot
	for _, s := range all {
		var devices []stats.Device
		for _, d := range s.Devices {
			if d.Name == device {
				devices = append(devices, d)
			}
		}
		if devices != nil {
			s.Devices = devices
			some = append(some, s)
		}
	}
	return some
}

// printTable prints the counters of every process and device. Counters that
// are 0 are left out unless zeros is set.
func printTable(w io.Writer, all []stats.Snapshot, zeros bool) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no process has a device open")
		return
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		for _, d := range s.Devices {
			t := table.NewWriter()
			t.SetOutputMirror(w)
			t.SetStyle(table.StyleLight)
			t.Style().Options.DrawBorder = false
			t.Style().Options.SeparateColumns = false
			fmt.Fprintln(w, title(s, d))
			t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})
			rows := 0
			for _, c := range d.Counters {
				if c.Value != 0 || zeros {
					t.AppendRow(table.Row{c.Name, c.Value})
					rows++
				}
			}
			if rows == 0 {
				t.AppendRow(table.Row{"(all counters are 0)", ""})
			}
			t.Render()
		}
	}
}

func title(s stats.Snapshot, d stats.Device) string {
	net := ""
	if d.NetDev != "" {
		net = " on " + d.NetDev
	}
	return fmt.Sprintf("%s (%s%s), process %d: %s, verbena %s", d.Name, d.Kind, net, s.PID,
		s.Command, s.Version)
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
