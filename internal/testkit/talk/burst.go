// SPDX-License-Identifier: BSD-2-Clause

package talk

import (
	"net/netip"
	"time"

	"verbena/ib"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// Burst writes packets from A to B as one frame that an interface cuts. A bit of the packet with
// index damaged is wrong; -1 damages none.
func (c *Capture) Burst(damaged int, burst ...roce.Packet) {
	c.t.Helper()
	dst := netip.AddrPortFrom(B.Addr(), roce.Port)
	pseudo := roce.NewPseudo(A.Addr(), dst.Addr(), A.Port(), dst.Port())
	var b []byte
	for i, p := range burst {
		p.MigReq, p.PKey, p.DestQP = true, ib.DefaultPKey, QPB
		b = append(b, pseudo.Seal(p.Append(nil), uint16(i))...)
		if i == damaged {
			b[len(b)-roce.ICRCBytes-1] ^= 1
		}
	}
	d := pcap.Datagram{Time: Start.Add(c.At), Src: A, Dst: dst, Comment: c.Comment}
	if err := c.w.Write(&d, b); err != nil {
		c.t.Fatal(err)
	}
	c.Comment = ""
	c.At += time.Microsecond
}
