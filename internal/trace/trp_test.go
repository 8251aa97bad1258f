// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
)

// Datagrams as urdma's format has them, byte for byte, and their lines.
func TestTRPLines(t *testing.T) {
	client, listener, server := netip.MustParseAddrPort("192.0.2.1:40000"), netip.MustParseAddrPort("192.0.2.2:7174"), netip.MustParseAddrPort("192.0.2.2:40001")
	var s Associations
	f := Formatter{}
	for i, x := range []struct {
		src, dst netip.AddrPort
		bytes    string
		want     string // empty: it is not TRP
	}{
		{client, server, "00000000 00000000 0000 c140 00000001 0000000000000000", ""},
		{client, listener, "00000000 00000000 1000 0003 0004 0005 616263", "TRP 40000 > 7174 Request  IRD=4 ORD=5 PrivateData=3"},
		{server, client, "00000000 00000400 2000 0000 0006 0007", "TRP 40001 > 40000 Accept  IRD=6 ORD=7 PrivateData=0 Window=1024"},
		{client, server, "00000000 00000000 0000", "TRP 40000 > 40001 ACK  PSN=0 AckPSN=0"},
		{client, server, "00000000 00000000 0000 c140 00000001 0000000000000002 6869", "DDP/RDMA 40000 > 40001 Write [last DDP segment]  PSN=0 AckPSN=0 STag=0x00000001 TO=0x2 Len=2"},
		{client, server, "00000001 00000000 0000 414a 00000000 00000001 00000001 00000000 00000001 00000009 00000007 0000000000000008" +
			"0000000000000003 0000000000000000 0000000000000004 0000000000000000",
			"DDP/RDMA 40000 > 40001 Atomic Request [last DDP segment]  PSN=1 AckPSN=0 QN=1 MSN=1 MO=0 CmpSwap (urdma) ID=9 STag=0x00000007 TO=0x8" +
				" Swap=0x0000000000000003 Mask=0x0000000000000000 Compare=0x0000000000000004 Mask=0x0000000000000000"},
		{server, client, "00000002 00000005 5000", "TRP 40001 > 40000 SACK  Min=2 Max=5"},
		{server, client, "00000000 00000002 4000", "TRP 40001 > 40000 FIN  PSN=0 AckPSN=2"},
		{server, client, "00000000 00000002 40", "TRP 40001 > 40000 [Malformed Packet: too_short, 9 bytes]"},
		{server, client, "00000000 00000002 0000 41", "DDP/RDMA 40001 > 40000 [Malformed Packet: 1 bytes]  PSN=0 AckPSN=2"},
		{server, listener, "00000000 00000000 0000", ""},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(x.bytes, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		d := pcap.Datagram{Src: x.src, Dst: x.dst, Payload: b, FrameLen: len(b) + 42}
		if got := s.Has(&d); got != (x.want != "") {
			t.Errorf("datagram %d is TRP: %v", i, got)
		} else if !got {
			continue
		}
		line := string(f.AppendTRP(nil, i, time.Millisecond, &d))
		if i == 1 && line != "    1    0.001000 192.0.2.1 → 192.0.2.2 TRP 61 "+x.want[len("TRP "):] {
			t.Errorf("%q", line)
		}
		at := strings.Index(line, "TRP")
		if k := strings.Index(line, "DDP/RDMA"); k >= 0 {
			at = k
		}
		protocol, rest, _ := strings.Cut(line[at:], " ")
		_, rest, _ = strings.Cut(rest, " ") // the length
		if got := protocol + " " + rest; got != x.want {
			t.Errorf("datagram %d:\n%s, want\n%s", i, got, x.want)
		}
	}
}
