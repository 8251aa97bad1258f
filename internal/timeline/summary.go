// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
)

// WriteSummary writes each connection with its ends and findings as text.
func (t *Timeline) WriteSummary(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i, f := range t.Files {
		fmt.Fprintf(out, "%s: %d frames\n", f.Name, f.Frames)
		if f.Err != nil {
			fmt.Fprintf(out, "  %v\n", f.Err)
		}
		for _, c := range t.Conns {
			if c.File == i {
				t.writeConn(out, c)
			}
		}
	}
	if t.LeftOut > 0 {
		fmt.Fprintf(out, "%d packets are left out: there are too many, or their flows are.\n",
			t.LeftOut)
	}
	return out.Flush()
}

func (t *Timeline) writeConn(w io.Writer, c *Conn) {
	fmt.Fprintf(w, "%s %v ⇄ %v: %s\n", c.Protocol, &c.A, &c.B, c.Grade())
	if c.Captures != "" {
		fmt.Fprintf(w, "  %s\n", c.Captures)
	}
	for _, b := range []bool{false, true} {
		e := c.End(b)
		if e.Packets == 0 {
			continue
		}
		fmt.Fprintf(w, "  %s: %d packets, %d bytes", Name(b), e.Packets, e.Bytes)
		if e.Operations > 0 {
			fmt.Fprintf(w, ", %d operations (%d done, %d failed)", e.Operations, e.Done, e.Failed)
		}
		if e.Repeated > 0 {
			fmt.Fprintf(w, ", %d repeated", e.Repeated)
		}
		if e.RTTs > 0 {
			fmt.Fprintf(w, ", round trip %v to %v", round(e.RTTMin), round(e.RTTMax))
		}
		fmt.Fprintln(w)
	}
	for _, f := range c.Findings {
		fmt.Fprintf(w, "  %s\n", f.Text)
	}
}

// String returns the address of an end, with its queue pair or port.
func (e *End) String() string {
	switch {
	case e.Port != 0:
		return netip.AddrPortFrom(e.Addr, e.Port).String()
	case e.QPN != 0:
		return fmt.Sprintf("%v QP 0x%06x", e.Addr, e.QPN)
	}
	return e.Addr.String()
}

// Title returns an operation's name and number: "WRITE #17".
func (o *Op) Title() string { return fmt.Sprintf("%v #%d", o.Operation, o.Number) }
