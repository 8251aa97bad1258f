// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/roce"
)

// Datagrams that the kernel joined are taken as runs where they are some. Whatever is among them
// counts for itself: a wrong ICRC, a packet for another queue pair, a gap, a packet that came twice.
func TestRunsOfAMessage(t *testing.T) {
	const mtu, packets = 1024, 12
	n := newNode(t, policy.Nap)
	peer := netip.MustParseAddr("127.0.0.9")
	pseudo := wire.NewPseudo(peer, n.Addr, 50000, roce.UDPPort)
	port := n.Eng.Probe().Inputs()[0].(*Port)
	payload := bytes.Repeat([]byte("0123456789abcdef"), packets*mtu/16)
	for i := range payload {
		payload[i] += byte(i >> 10)
	}
	for _, c := range []struct {
		name  string
		id    uint16 // identification of the first datagram
		spoil func(d [][]byte)
		whole int               // packets placed in order
		steps int               // in which the port takes them; 0: any number
		count map[string]uint64 // counters raised, beside those of packets
	}{
		{"whole", 0, func([][]byte) {}, packets, 3, nil},
		{"of a foreign sender", 777, func([][]byte) {}, packets, 3, nil},
		{"a wrong ICRC", 0, func(d [][]byte) { d[6][20] ^= 1 }, 6, 0, map[string]uint64{"bad_icrc": 1}},
		{"a wrong ICRC of a foreign sender", 777, func(d [][]byte) { d[6][20] ^= 1 }, 6, 0, map[string]uint64{"bad_icrc": 1}},
		{"another queue pair's", 0, func(d [][]byte) {
			copy(d[5][5:8], []byte{0, 0, 0x77})
			pseudo.Seal(d[5][:len(d[5])-wire.ICRCBytes], 4)
		}, 5, 0, map[string]uint64{"unknown_qp": 1}},
		{"twice", 0, func(d [][]byte) {
			copy(d[5], d[4])
			pseudo.Seal(d[5][:len(d[5])-wire.ICRCBytes], 4)
		}, 5, 0, map[string]uint64{"duplicate_request": 1}},
	} {
		e := newEndpoint(n, packets*mtu)
		connectAt(e, 9, peer, 14, 7)
		var data []byte
		for i := range packets {
			p := wire.Packet{BTH: wire.BTH{Opcode: wire.RCRDMAWriteMiddle, PKey: ib.DefaultPKey, DestQP: e.QPN(), PSN: ib.PSN(5 + i)}}
			p.Payload = payload[i*mtu : (i+1)*mtu]
			switch i {
			case 0:
				// Alone: its header is longer, so it is no part of the message.
				p.Opcode, p.RETH = wire.RCRDMAWriteFirst, wire.RETH{VA: e.Region.Addr(), RKey: e.Region.RKey(), DMALen: packets * mtu}
			case packets - 1:
				p.Opcode, p.AckReq = wire.RCRDMAWriteLast, true
			}
			data = append(data, pseudo.Seal(p.Append(nil), c.id+uint16(max(i-1, 0)))...)
		}
		first := wire.BTHBytes + wire.RETHBytes + mtu + wire.ICRCBytes
		each := wire.BTHBytes + mtu + wire.ICRCBytes
		d := make([][]byte, packets) // d[i] is the datagram of payload i, inside of data
		d[0] = data[:first]
		for i := 1; i < packets; i++ {
			d[i] = data[first+(i-1)*each : first+i*each]
		}
		c.spoil(d)
		before := map[string]uint64{}
		for name := range c.count {
			before[name] = n.Counter(name)
		}
		fl := &flow{src: netip.AddrPortFrom(peer, 50000), dst: n.Addr, pseudo: pseudo}
		port.meta = roce.Meta{Src: peer, Dst: n.Addr, SrcPort: 50000}
		send := &engine.Joint{Now: monotime.Now()}
		var cur *Conn
		steps := 0
		for _, m := range []*udp.Message{{Data: d[0], ID: c.id}, {Data: data[first:], SegmentSize: each}} {
			for j, k := 0, 0; j < m.Segments(); j += k {
				steps++
				if cur, k = port.datagram(send, fl, m, j, cur); k < 1 {
					t.Fatalf("%s: datagram %d is taken %d times", c.name, j, k)
				}
			}
		}
		if c.steps > 0 && steps != c.steps {
			t.Errorf("%s: taken in %d steps, want %d", c.name, steps, c.steps)
		}
		var a ib.QPAttr
		cur.packets.Query(&a)
		cur.PumpUnlock(send.Now)
		send.Finish()
		if want := ib.PSN(5 + c.whole); a.RQPSN != want {
			t.Errorf("%s: PSN %d is expected next, want %d", c.name, a.RQPSN, want)
		}
		k := c.whole * mtu
		if !bytes.Equal(e.Buf[:k], payload[:k]) || !bytes.Equal(e.Buf[k:], make([]byte, len(e.Buf)-k)) {
			t.Errorf("%s: the memory is not the first %d packets", c.name, c.whole)
		}
		for name, want := range c.count {
			if got := n.Counter(name) - before[name]; got != want {
				t.Errorf("%s: %s is raised %d times, want %d", c.name, name, got, want)
			}
		}
		e.Close()
	}
}
