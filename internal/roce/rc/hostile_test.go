// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// liar makes packets that a queue pair may or may not expect.
type liar struct {
	*rand.Rand
	s    *script.Script
	qp   *rc.QP
	sent ib.PSN // one past the newest PSN that the machine has sent
}

// runs is the number of liars of a test.
func runs() int {
	if testing.Short() {
		return 20
	}
	return 100
}

// near returns a PSN that is most often within a window of another.
func (l *liar) near(psn ib.PSN) ib.PSN {
	switch l.IntN(8) {
	case 0:
		return ib.PSN(l.Uint32() & 0xffffff)
	case 1:
		return psn.Add(l.Uint32N(1 << 18))
	}
	return psn.Add(l.Uint32N(80)).Add(1<<24 - 60)
}

// payload returns bytes of a length that is most often a multiple of 4.
func (l *liar) payload(most int) []byte {
	n := l.IntN(most/4+1) * 4
	if l.IntN(10) == 0 {
		n++
	}
	return bytes.Repeat([]byte{0x5a}, n)
}

// response is an acknowledgement, a SACK, or a response to a READ or atomic.
func (l *liar) response() wire.Packet {
	psn := l.near(l.sent)
	syndromes := []wire.Syndrome{wire.ACK(3), wire.ACK(wire.CreditsInvalid), wire.NAKPSNSequence,
		wire.NAKPSNSequence, wire.RNRNAK(uint8(l.IntN(32)))}
	if l.IntN(200) == 0 {
		syndromes = append(syndromes[:0], wire.Syndrome(l.Uint32()))
	}
	p := wire.Packet{BTH: wire.BTH{Opcode: wire.RCAcknowledge, PSN: psn, Selective: l.IntN(3) > 0,
		AllRETH: l.IntN(3) == 0},
		AETH: wire.AETH{Syndrome: syndromes[l.IntN(len(syndromes))], MSN: ib.MSN(l.Uint32N(40))}}
	switch l.IntN(8) {
	case 0, 1, 2:
		p.Opcode = wire.SelectiveAcknowledge
		gaps := wire.SACK{From: l.near(l.sent)}
		at := gaps.From
		for range 1 + l.IntN(20) {
			end := at.Add(1 + l.Uint32N(6))
			gaps.Gaps = append(gaps.Gaps, wire.Gap{First: at, End: end})
			at = end.Add(1 + l.Uint32N(6))
		}
		gaps.Upper = at
		p.Payload, _ = gaps.Append(make([]byte, 0, 1024), psn)
		switch l.IntN(20) {
		case 0:
			p.Payload = p.Payload[:l.IntN(len(p.Payload))]
		case 1:
			p.Payload[l.IntN(len(p.Payload))] = byte(l.Uint32())
		}
	case 3, 4:
		p.Opcode = wire.RCRDMAReadResponseFirst + wire.Opcode(l.IntN(4))
		p.Payload = bytes.Repeat([]byte{0x5a}, 1024)
		if l.IntN(4) == 0 {
			p.Payload = l.payload(1024)
		}
	case 5:
		p.Opcode = wire.RCAtomicAcknowledge
	}
	return p
}

// A responder that says anything at all has the requester do nothing that it would not do for an
// honest one: no completion twice or out of order, no byte outside of the memory of a READ, no
// unbounded list, no packet for ever. A responder that becomes honest then finds a queue pair that
// works, unless it has ended it.
func TestHostileResponder(t *testing.T) {
	ended := 0
	for seed := range runs() {
		s := script.New(t, newRC, relaxed, attr(func(a *ib.QPAttr) {
			a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = 7, 7, 8
		}))
		q := s.Machine.(*rc.QP)
		l := &liar{Rand: rand.New(rand.NewPCG(uint64(seed), 14)), s: s, qp: q, sent: psn}
		posted := 0
		const into, outside = 64 << 10, 128 << 10
		post := func() {
			for l.IntN(3) == 0 && s.SQ.Len() < 32 && q.State() == ib.QPRTS {
				n := 1 + l.IntN(20<<10)
				w := []script.WR{script.Write(n), script.Read(n).List(s.SGE(into, n)),
					script.FetchAdd(1).List(s.SGE(into, 8)), script.Send(n),
					script.WriteImm(n, 1).Fence()}[l.IntN(5)]
				s.Post(w)
				posted++
			}
		}
		note := func() {
			list := s.Packets()
			if len(list) > 4096 {
				t.Fatalf("seed %d: %d packets at once", seed, len(list))
			}
			for i := range list {
				if list[i].Info.Request && !list[i].PSN.Before(l.sent) {
					n := uint32(1)
					if list[i].Info.Operation == wire.OpRDMARead {
						n = max((list[i].RETH.DMALen+1023)/1024, 1)
					}
					l.sent = list[i].PSN.Add(n)
				}
			}
		}
		for range 600 {
			post()
			if l.IntN(10) > 0 {
				s.Recv(l.response())
			} else {
				s.Advance(monotime.Duration(l.IntN(int(5 * monotime.Millisecond))))
			}
			note()
			q.Check(t)
		}
		s.WantUntouched("no READ goes there", outside, len(s.Memory)-outside)
		// An honest one again: it has all, and answers READs as they are asked.
		for range 2000 {
			if s.SQ.Len() == 0 || q.State() == ib.QPErr {
				break
			}
			answerAll(s, q)
			s.Advance(10 * monotime.Millisecond)
			note()
			q.Check(t)
		}
		wcs := s.Completions()
		for i, wc := range wcs {
			if wc.WRID != uint64(i+1) {
				t.Fatalf("seed %d: completion %d is of WR %d", seed, i, wc.WRID)
			}
		}
		switch {
		case q.State() == ib.QPErr:
			ended++
		case len(wcs) != posted:
			t.Fatalf("seed %d: %d completions of %d; %v", seed, len(wcs), posted, s.Machine.Counters())
		}
	}
	t.Logf("%d of %d queue pairs ended", ended, runs())
	if ended == runs() {
		t.Error("none was alive at the end")
	}
}

// answerAll answers all that is outstanding.
func answerAll(s *script.Script, q *rc.QP) {
	for _, o := range q.Outstanding() {
		switch {
		case o.Atomic:
			s.Recv(script.AtomicAck(o.First, 1))
		case o.Read:
			for at := o.First; !at.After(o.Last); at = at.Add(1) {
				op := wire.RCRDMAReadResponseMiddle
				if at == o.Last {
					op = wire.RCRDMAReadResponseLast
				}
				s.Recv(script.Response(op, at, bytes.Repeat([]byte{1}, o.Bytes(at))))
			}
		default:
			s.Recv(script.AckCredits(o.Last, o.MSN, 100))
		}
	}
}

// request is a request of any kind.
func (l *liar) request() wire.Packet {
	ops := []wire.Opcode{wire.RCRDMAWriteOnly, wire.RCRDMAWriteOnly, wire.RCSendOnly,
		wire.RCRDMAReadRequest, wire.RCFetchAdd, wire.RCCompareSwap}
	if l.IntN(1000) == 0 { // these end the queue pair when their turn comes, but by chance
		ops = []wire.Opcode{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast,
			wire.RCRDMAWriteFirst, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteLast, wire.RCFlush}
	}
	op := ops[l.IntN(len(ops))]
	at, _ := l.qp.Expected()
	if l.IntN(3) > 0 {
		at = l.near(at)
	}
	p := script.Request(op, at, nil)
	if p.Info = op.Info(); p.Info.HasPayload {
		p.Payload = bytes.Repeat([]byte{1}, 1024)
		if p.Info.Last {
			p.Payload = l.payload(1024)
		}
	}
	p = l.s.At(p, l.IntN(32<<10)&^7, len(p.Payload))
	switch l.IntN(400) {
	case 0:
		p.RETH.RKey ^= 1 << l.IntN(32)
	case 1:
		p.RETH.DMALen = l.Uint32()
	}
	if op == wire.RCRDMAReadRequest || op == wire.RCFlush {
		p.RETH.DMALen = l.Uint32N(16 << 10)
	}
	p.Selective, p.Overtakes, p.AckReq = l.IntN(2) == 0, l.IntN(2) == 0, l.IntN(2) == 0
	return p
}

// A requester that sends anything at all takes no more memory than its share, writes nothing where
// it may not, and gets a bounded answer. All memory goes back.
func TestHostileRequester(t *testing.T) {
	kept, ended := uint64(0), 0
	for seed := range runs() {
		const all = 1 << 20
		b := mem.NewBudget(all)
		s := script.New(t, newRC, budget(b), func(s *script.Setup) { s.RQDepth = 600 })
		q := s.Machine.(*rc.QP)
		l := &liar{Rand: rand.New(rand.NewPCG(uint64(seed), 41)), s: s, qp: q}
		for range 600 {
			if l.IntN(4) == 0 && q.State() == ib.QPRTS {
				s.PostRecv(48<<10, 4096)
			}
			if l.IntN(20) > 0 {
				s.Recv(l.request())
			} else {
				s.Advance(monotime.Duration(l.IntN(int(5 * monotime.Millisecond))))
			}
			if n := len(s.Packets()); n > 2048 {
				t.Fatalf("seed %d: %d packets in answer to one", seed, n)
			}
			q.Check(t)
			if used := all - b.Left(); used > all/2 {
				t.Fatalf("seed %d: %d bytes are kept", seed, used)
			}
		}
		s.WantUntouched("it has no key of that", 64<<10, len(s.Memory)-64<<10)
		if kept += q.Counters()[roce.Kept]; q.State() == ib.QPErr {
			ended++
		}
		q.Discard()
		if b.Left() != all {
			t.Fatalf("seed %d: %d bytes were not given back", seed, all-b.Left())
		}
	}
	t.Logf("%d requests were kept, %d of %d queue pairs ended", kept, ended, runs())
	if kept < uint64(20*runs()) || ended == runs() {
		t.Error("the test shows little")
	}
}
