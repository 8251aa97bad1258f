// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// randomMatcher is a matcher whose peer sends anything, and loses answers.
type randomMatcher struct {
	*matcher
	r          *rand.Rand
	tags       int             // added
	left       map[uint64]bool // tagged receives without their last completion
	unexpected uint32          // as the application counts
	seen       map[ib.WCOpcode]int
}

// TestTagRandom has each tagged receive complete once, or stay in the list, whatever the peer
// sends and however often the queue pair ends. The count of unexpected messages stays right.
func TestTagRandom(t *testing.T) {
	seen := map[ib.WCOpcode]int{}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := &randomMatcher{matcherOf(t, r.IntN(3) > 0), r, 0, map[uint64]bool{}, 0, seen}
		for range 60 {
			m.step()
			m.poll()
		}
		m.SetState(ib.QPErr)
		m.poll()
		m.sync()
		if n, enabled := m.matcher.tags.Len(); n != len(m.left) || n != enabled {
			t.Fatalf("seed %d: %d tags, and %d that match; want %d of both", seed, n, enabled, len(m.left))
		}
	}
	if seen[ib.WCTMRecv] < 100 || seen[ib.WCTMNoTag] < 100 || seen[ib.WCRDMARead] < 20 || seen[ib.WCSend] < 20 {
		t.Errorf("little was tried: %v", seen)
	}
}

func (m *randomMatcher) sync() {
	op := ib.TagWR{ID: 1 << 32, Opcode: ib.TagSync, Flags: ib.TagUnexpected, UnexpectedCnt: m.unexpected}
	if err := m.matcher.tags.Post(&op); err != nil {
		m.t.Fatal(err)
	}
}

func (m *randomMatcher) step() {
	switch m.r.IntN(9) {
	case 0:
		m.PostRecv(0, 1+m.r.IntN(3000))
	case 1, 2:
		if n, _ := m.matcher.tags.Len(); n < 8 {
			m.tags++
			m.left[uint64(m.tags)] = true
			m.add(uint64(m.tags), uint64(m.r.IntN(3)), 0, uint32(m.r.IntN(3000)))
		}
	case 3:
		m.sync()
	case 4:
		if m.r.IntN(12) == 0 {
			m.SetState(ib.QPErr)
		}
	default:
		m.send()
	}
	if m.Machine.State() == ib.QPErr {
		m.poll()
		m.SetState(ib.QPReset)
		m.Connect()
	}
}

// send has the peer send the next packet, and answer those that come of it.
func (m *randomMatcher) send() {
	h := ib.TMH{Op: ib.TMOp(m.r.IntN(4)), Tag: uint64(m.r.IntN(5))}
	op, b := wire.RCSendOnly, h.Append(nil)
	psn, inside := m.Machine.(*rc.QP).Expected()
	switch {
	case inside && m.r.IntN(2) == 0:
		op, b = wire.RCSendMiddle, make([]byte, 1024)
	case inside:
		op, b = wire.RCSendLast, make([]byte, 1+m.r.IntN(1024))
	case h.Op == ib.TMRendezvous:
		n := uint32(m.r.IntN(4000))
		if m.r.IntN(4) == 0 {
			n = m.r.Uint32()
		}
		b = ib.RVH{VA: script.RemoteAddr, RKey: script.RemoteKey, Length: n}.Append(b)
	case m.r.IntN(2) == 0:
		op, b = wire.RCSendFirst, append(b, make([]byte, 1008)...)
	default:
		b = append(b, make([]byte, m.r.IntN(1000))...)
	}
	if op == wire.RCSendOnly && m.r.IntN(30) == 0 {
		b = b[:m.r.IntN(len(b)+1)]
	}
	m.Recv(script.Request(op, psn, b))
	for _, p := range m.Packets() {
		switch p.Opcode {
		case wire.RCRDMAReadRequest:
			m.seen[ib.WCRDMARead]++
			m.answer(&p)
		case wire.RCSendOnly:
			m.seen[ib.WCSend]++
			m.Recv(script.Ack(p.PSN, 1))
		}
	}
}

// answer sends the responses of a READ, but for some.
func (m *randomMatcher) answer(p *wire.Packet) {
	left := p.RETH.DMALen
	for i := uint32(0); i == 0 || left > 0; i++ {
		n := min(left, 1024)
		left -= n
		op := wire.RCRDMAReadResponseMiddle
		switch {
		case i == 0 && left == 0:
			op = wire.RCRDMAReadResponseOnly
		case i == 0:
			op = wire.RCRDMAReadResponseFirst
		case left == 0:
			op = wire.RCRDMAReadResponseLast
		}
		if m.r.IntN(4) > 0 {
			m.Recv(script.Response(op, p.PSN.Add(i), make([]byte, n)))
		}
	}
}

// poll takes the completions. Receives of the shared queue have an ID from 1001 on; tags have less.
func (m *randomMatcher) poll() {
	for _, w := range m.wcs {
		m.seen[w.Opcode]++
		switch unexpected := w.Opcode == ib.WCTMRecv && w.WRID > 1000; {
		case unexpected && w.Status == ib.WCSuccess:
			m.unexpected++
		case w.WRID > 1000:
		case !m.left[w.WRID]:
			m.t.Fatalf("it has completed before: %+v", w)
		case w.Status != ib.WCSuccess || w.Flags&ib.WCTMDataValid != 0:
			delete(m.left, w.WRID)
		}
	}
	m.wcs = nil
}
