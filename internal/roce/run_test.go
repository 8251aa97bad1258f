// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	wire "verbena/internal/wire/roce"
)

// A run has the bytes of the datagrams that Begin, Span and End make one by one. It may start a
// burst or stand behind others.
func TestRun(t *testing.T) {
	send := wire.BTH{Opcode: wire.RCSendMiddle, PKey: ib.DefaultPKey, DestQP: 9, PSN: 0xfffff0}
	write := send
	write.Opcode, write.AllRETH = wire.RCRDMAWriteMiddle, true
	testRun(t, send)
	testRun(t, write)
}

func testRun(t *testing.T, h wire.BTH) {
	const payload = 1024
	headers := h.Row().HeaderBytes
	size := headers + payload + wire.ICRCBytes
	reth := func(i int) wire.RETH {
		return wire.RETH{VA: 0xfffff000 + uint64(i*payload), RKey: 7, DMALen: uint32((90 - i) * payload)}
	}
	buf := make([]byte, 80*payload)
	for i := range buf {
		buf[i] = byte(i*7 + i>>9)
	}
	tab, r := table(t, buf)
	open := func(from, n int) mem.Span {
		s, v := tab.Local(1, ib.SGE{Addr: uint64(from * payload), Length: uint32(n * payload), LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		return s
	}
	burst := func(run bool, before int) []byte {
		b := NewBurst()
		n := 40
		for i := 0; i < before+n; i++ {
			h := h
			h.PSN = h.PSN.Add(uint32(i))
			if run && i == before {
				if room := b.RunRoom(burstPath, 9, headers, payload); room != MaxBurstBytes/size-before {
					t.Errorf("room for %d datagrams behind %d", room, before)
				}
				if b.Run(burstPath, h, reth(i), open(i, n), payload, n) != n {
					t.Fatal("no run")
				}
				break
			}
			if !b.Begin(burstPath, size, h) {
				t.Fatal("no datagram")
			}
			if h.AllRETH {
				b.RETH(reth(i))
			}
			if !b.Span(open(i, 1), 0, payload) {
				t.Fatal("no payload")
			}
			b.End()
		}
		if b.Len() != before+n || b.Packets() != before+n || b.Longest() != b.Bytes() {
			t.Errorf("%d datagrams, %d packets, %d bytes of a message", b.Len(), b.Packets(), b.Longest())
		}
		last := h
		last.Opcode, last.AllRETH, last.PSN = wire.RCSendLast, false, h.PSN.Add(uint32(before+n))
		if !b.Begin(burstPath, wire.BTHBytes+8+wire.ICRCBytes, last) {
			t.Fatal("no last datagram")
		}
		b.Copy(buf[:8])
		b.End()
		b.Seal()
		all := bytes.Join(b.Iov(), nil)
		if b.Reset(); !r.Idle() {
			t.Error("memory is held after Reset")
		}
		return all
	}
	for _, before := range []int{0, 1, 7} {
		if !bytes.Equal(burst(true, before), burst(false, before)) {
			t.Errorf("behind %d others: other bytes than one by one", before)
		}
	}
}

// No run fits a burst of another size, path or queue pair, a full one, or one in a ring.
func TestRunRoom(t *testing.T) {
	other := *burstPath
	begun := func(n int) *Burst {
		b := NewBurst()
		size, h := packet(n)
		if !b.Begin(burstPath, size, h) {
			t.Fatal("no datagram")
		}
		b.Copy(make([]byte, n))
		b.End()
		return b
	}
	full, ring, turn := NewBurst(), NewBurst(), begun(1024)
	full.Limit(0)
	ring.Into(make([]byte, MaxBurstBytes), false)
	turn.NextTurn()
	for _, c := range []struct {
		name string
		b    *Burst
		path *Path
		dst  ib.QPN
		want int
	}{
		{"empty", NewBurst(), burstPath, 1, 62},
		{"after one", begun(1024), burstPath, 1, 61},
		{"after a longer one", begun(1028), burstPath, 1, 0},
		{"after a shorter one", begun(1020), burstPath, 1, 0},
		{"another queue pair's", begun(1024), burstPath, 2, 0},
		{"another path's", begun(1024), &other, 1, 0},
		{"full", full, burstPath, 1, 0},
		{"ring", ring, burstPath, 1, 0},
		{"another machine's turn", turn, burstPath, 1, 0},
	} {
		if got := c.b.RunRoom(c.path, c.dst, wire.BTHBytes, 1024); got != c.want {
			t.Errorf("%s: room for %d, want %d", c.name, got, c.want)
		}
	}
}
