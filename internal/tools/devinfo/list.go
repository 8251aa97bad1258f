// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"fmt"
	"io"

	"verbena/ib"
)

// Entry is a device in a list.
type Entry struct {
	Name   string
	GUID   ib.GUID
	Kind   string
	NetDev string
}

// PrintDevices prints the table of ibv_devices.
func PrintDevices(w io.Writer, list []Entry) {
	fmt.Fprintf(w, "    %-16s\t   node GUID\n", "device")
	fmt.Fprintf(w, "    %-16s\t----------------\n", "------")
	for _, d := range list {
		fmt.Fprintf(w, "    %-16s\t%016x\n", d.Name, uint64(d.GUID))
	}
}

// PrintNames prints the list of ibv_devinfo -l.
func PrintNames(w io.Writer, list []Entry) {
	plural := "s"
	if len(list) == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d HCA%s found:\n", len(list), plural)
	for _, d := range list {
		fmt.Fprintf(w, "\t%s\n", d.Name)
	}
	fmt.Fprintln(w)
}
