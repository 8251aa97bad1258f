// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	wire "verbena/internal/wire/iwarp"
)

// opcodes returns the operations of a stream's segments, those of one message
// once.
func opcodes(t *testing.T, b []byte) (all []wire.Opcode) {
	last := true
	for _, u := range ulpdus(t, b, true) {
		h, _, _ := wire.ParseHeader(u)
		if last || all[len(all)-1] != h.Opcode {
			all = append(all, h.Opcode)
		}
		last = h.Last
	}
	return all
}

// established returns two ends that have both spoken.
func established(t *testing.T) (a, b *end) {
	a, b = pair(t)
	a.post(a.write(0, 1, b, 0))
	carry(a, b)
	a.wantWC("first", 1, ib.WCSuccess)
	return a, b
}

// TestMessagesDoNotInterleave: a response waits for the end of a SEND that is
// longer than a burst.
func TestMessagesDoNotInterleave(t *testing.T) {
	a, b := established(t)
	a.nothing = true
	a.post(a.send(0, 600000))
	a.s.PollOutput(0, a.burst)
	s := bytes.Join(a.burst.Iov(), nil)
	if len(s) > 600000 {
		t.Fatal("the SEND fits a burst")
	}
	a.burst.Reset()
	b.post(b.read(0, 3000, a, 0))
	a.take(b.out, whole, never)
	for a.s.PollOutput(0, a.burst) {
		s = append(s, bytes.Join(a.burst.Iov(), nil)...)
		a.burst.Reset()
	}
	if got := opcodes(t, s); len(got) != 2 || got[0] != wire.Send || got[1] != wire.ReadResponse {
		t.Errorf("%v", got)
	}
}

// TestTurns: responses to the peer and requests posted here take turns, message by message.
func TestTurns(t *testing.T) {
	a, b := established(t)
	b.postRecv(1, b.sge(0, 1))
	for range 3 {
		b.post(b.read(50000, 3000, a, 0))
	}
	a.nothing = true
	a.post(a.write(0, 3000, b, 0), a.write(0, 3000, b, 0), a.send(0, 1))
	a.take(b.out, whole, never)
	var s []byte
	for a.s.PollOutput(0, a.burst) {
		s = append(s, bytes.Join(a.burst.Iov(), nil)...)
		a.burst.Reset()
	}
	want := []wire.Opcode{wire.ReadResponse, wire.RDMAWrite, wire.ReadResponse, wire.RDMAWrite, wire.ReadResponse, wire.Send}
	got := opcodes(t, s)
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// TestLocalInvalidateWaits until the READ before it has its data.
func TestLocalInvalidateWaits(t *testing.T) {
	a, b := established(t)
	mr, err := a.table.AllocFast(pd, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mr.Map([][]byte{a.bytes[:4096]}, 0x9000); err != nil {
		t.Fatal(err)
	}
	src := b.fill(0, 4000, 5)
	r := a.read(0, 4000, b, 0)
	r.SGE[0] = ib.SGE{Addr: 0x9000, Length: 4000, LKey: ib.LKey(mr.RKey())}
	a.post(queue.SendWQE{Opcode: ib.WRRegMR, Region: mr, RKey: mr.RKey(), Access: ib.AccessLocalWrite}, r,
		queue.SendWQE{Opcode: ib.WRLocalInv, InvalidateKey: mr.RKey()}, a.send(0, 1))
	b.postRecv(1, b.sge(8000, 10))
	carry(a, b)
	a.wantWC("REG_MR", 2, ib.WCSuccess)
	a.wantWC("READ", 3, ib.WCSuccess)
	a.wantWC("LOCAL_INV", 4, ib.WCSuccess)
	a.wantWC("SEND", 5, ib.WCSuccess)
	a.wantBytes("READ", 0, src)
	r.SGE[0].Length, r.Length = 1, 1
	a.post(r)
	a.wantWC("the key is gone", 6, ib.WCLocProtErr)
}

// TestLocalOperationsNeedNoPeer: a responder that may not send yet, because its
// peer has not spoken, does its local operations nevertheless, in order.
func TestLocalOperationsNeedNoPeer(t *testing.T) {
	a, b := pair(t)
	mr, err := b.table.AllocFast(pd, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mr.Map([][]byte{b.bytes[:4096]}, 0x9000); err != nil {
		t.Fatal(err)
	}
	inv := queue.SendWQE{Opcode: ib.WRLocalInv, InvalidateKey: mr.RKey()}
	b.post(queue.SendWQE{Opcode: ib.WRRegMR, Region: mr, RKey: mr.RKey(), Access: ib.AccessLocalWrite}, inv, b.send(0, 10), inv)
	b.wantWC("REG_MR", 1, ib.WCSuccess)
	b.wantWC("LOCAL_INV", 2, ib.WCSuccess)
	b.wantQuiet("the SEND waits for the peer, and what is behind it")
	a.postRecv(7, a.sge(0, 100))
	a.post(a.write(200, 1, b, 200))
	carry(a, b)
	b.wantWC("the SEND", 3, ib.WCSuccess)
	b.wantWC("LOCAL_INV behind it", 4, ib.WCSuccess)
}

// TestNothingFollowsAReadyToReceiveREAD before it is answered: siw now and then ignores bytes that
// come together with the ready-to-receive message.
func TestNothingFollowsAReadyToReceiveREAD(t *testing.T) {
	a, b := pair(t, func(o *options) { o.rtr = mpa.RTRRead })
	b.postRecv(9, b.sge(8000, 10))
	a.post(a.send(0, 10))
	a.pump()
	if got := opcodes(t, a.out); len(got) != 1 || got[0] != wire.ReadRequest {
		t.Fatalf("first %v", got)
	}
	carry(a, b)
	b.wantRecv("the SEND behind the answer", 9, ib.WCSuccess)
	a.wantWC("the SEND", 1, ib.WCSuccess)
}

// TestNudge has a peer overlook the first message until more comes. siw does so with bytes that
// arrive before its socket calls back. The initiator sends more, of no meaning, until the peer has
// sent something.
func TestNudge(t *testing.T) {
	for _, k := range []mpa.RTR{mpa.RTRNone, mpa.RTRWrite, mpa.RTRRead} {
		foreign := func(o *options) { o.rtr, o.extensions = k, false }
		a, b := pair(t, foreign)
		if a.s.NextTimeout() != monotime.Never {
			t.Errorf("%v: nothing was said, nothing is overlooked", k)
		}
		a.post(a.read(0, 100, b, 5000))
		first := len(a.out)
		for i := range maxNudges {
			due := a.now.Add(nudgeWait << i)
			if got := a.s.NextTimeout(); got != due {
				t.Fatalf("%v: nudge %d is due after %v, want %v", k, i, got.Sub(a.now), due.Sub(a.now))
			}
			a.now = due.Add(-1)
			a.s.HandleTimeout(a.now)
			a.pump()
			if n := len(a.out); n != first+i*wire.FPDUBytes(wire.TaggedBytes) {
				t.Fatalf("%v: nudge %d came early", k, i)
			}
			a.now = due
			a.s.HandleTimeout(a.now)
			a.pump()
		}
		if a.s.NextTimeout() != monotime.Never {
			t.Errorf("%v: it goes on for ever", k)
		}
		all := ulpdus(t, a.out, true)
		for _, u := range all[len(all)-maxNudges:] {
			if h, payload, _ := wire.ParseHeader(u); h.Opcode != wire.RDMAWrite || !h.Last || h.STag != zeroSTag || len(payload) != 0 {
				t.Errorf("%v: a nudge is %v of %d bytes", k, h, len(payload))
			}
		}
		carry(a, b)
		a.wantWC("the READ, once the peer looks", 1, ib.WCSuccess)
		b.wantQuiet("nudges mean nothing")

		// One that has answered is not nudged, nor is our own kind.
		a, b = pair(t, foreign)
		a.post(a.read(0, 100, b, 5000))
		carry(a, b)
		c, _ := pair(t, func(o *options) { o.rtr = k })
		c.post(c.send(0, 100))
		for _, e := range []*end{a, c} {
			if e.s.NextTimeout() != monotime.Never {
				t.Errorf("%v: a nudge of who need not be", k)
			}
		}
	}
}

// TestNudgeKeepsOffMessages: it waits for the end of a message that is begun, and
// is of no use on a stream that is over.
func TestNudgeKeepsOffMessages(t *testing.T) {
	a, _ := pair(t, func(o *options) { o.extensions = false })
	a.nothing = true
	a.post(a.send(0, 1<<20-1))
	if !a.s.PollOutput(a.now, a.burst) {
		t.Fatal("nothing is sent")
	}
	a.now = a.s.NextTimeout()
	a.s.HandleTimeout(a.now)
	var list []wire.Opcode
	for n := a.burst.Bytes(); ; n = a.burst.Bytes() {
		list = append(list, opcodes(t, bytes.Join(a.burst.Iov(), nil))...)
		a.burst.Reset()
		a.s.HandleWritten(a.now, n)
		if !a.s.PollOutput(a.now, a.burst) {
			break
		}
	}
	if i := slices.Index(list, wire.RDMAWrite); i != len(list)-1 {
		t.Errorf("the nudge is segment %d of %d", i, len(list))
	}
	a.s.HandleClose(a.now, true)
	if a.s.HandleTimeout(a.now.Add(monotime.Second)); a.s.Closing() != Abort {
		t.Errorf("closing %v", a.s.Closing())
	}
	a.nothing = false
	a.wantWC("the SEND", 1, ib.WCSuccess)
	a.wantQuiet("over")
}
