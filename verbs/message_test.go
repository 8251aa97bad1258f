// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestScatterGather32 gathers a message from 32 pieces of odd sizes, some
// empty, and scatters it to 32 others.
func TestScatterGather32(t *testing.T) { onBothPaths(t, scatterGather32) }

func scatterGather32(t *testing.T) {
	wide := func(a *verbs.QPInitAttr) { a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE = 32, 32 }
	a, b := newEnd(t, ib.QPTypeRC, 64<<10, wide), newEnd(t, ib.QPTypeRC, 64<<10, wide)
	connect(t, a, b, ib.MTU1024)
	pattern(a.buf, 7)
	var from, to []ib.SGE
	var want []byte
	for i := range 32 {
		n := i * 37 % 500
		from = append(from, a.mr.SGE(i*1000, n))
		want = append(want, a.buf[i*1000:i*1000+n]...)
		to = append(to, b.mr.SGE((31-i)*2000, (i*53)%700)) // backwards, in other sizes
	}
	_, err := b.qp.PostRecv(verbs.RecvWR{SGList: to})
	check(t, err)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: from}).Status, ib.WCSuccess)
	if wc := b.one(); int(wc.ByteLen) != len(want) {
		t.Fatalf("%d bytes of %d", wc.ByteLen, len(want))
	}
	for i := range to {
		at := (31 - i) * 2000
		n := min(int(to[i].Length), len(want))
		if !bytes.Equal(b.buf[at:at+n], want[:n]) {
			t.Fatalf("piece %d differs", i)
		}
		want = want[n:]
	}
	// The same for READ, whose pieces are the target.
	clear(b.buf)
	pattern(b.buf[:4096], 9)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: from, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	rest := b.buf
	for i := range from {
		n := int(from[i].Length)
		if !bytes.Equal(a.buf[i*1000:i*1000+n], rest[:n]) {
			t.Fatalf("piece %d differs", i)
		}
		rest = rest[n:]
	}
}

// TestMessagesOfNothing: each operation of zero bytes completes, and looks at
// no key.
func TestMessagesOfNothing(t *testing.T) {
	a, b := rcPair(t, 64)
	b.recv(2, 8)
	for _, wr := range []verbs.SendWR{
		{Opcode: ib.WRRDMAWrite, RKey: 12345},
		{Opcode: ib.WRRDMARead, RKey: 12345},
		{Opcode: ib.WRSend},
		{Opcode: ib.WRRDMAWriteWithImm, ImmData: 3, SGList: []ib.SGE{{}, {}}},
	} {
		if wc := a.post(wr); wc.Status != ib.WCSuccess || wc.ByteLen != 0 {
			t.Errorf("%v: %+v", wr.Opcode, wc)
		}
	}
	for _, wc := range b.poll(2) {
		if wc.Status != ib.WCSuccess || wc.ByteLen != 0 {
			t.Errorf("%+v", wc)
		}
	}
}

// TestInline reuses the caller's bytes at once: the peer gets them as they were at PostSend.
func TestInline(t *testing.T) {
	for _, typ := range []ib.QPType{ib.QPTypeRC, ib.QPTypeUC} {
		a, b := newEnd(t, typ, 64), newEnd(t, typ, 64*64)
		connect(t, a, b, ib.MTU256)
		b.recv(64, 64)
		data := make([]byte, 40)
		for i := range 32 {
			pattern(data, byte(i))
			pattern(a.buf, byte(i+1))
			_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSignaled, Inline: data, SGList: []ib.SGE{a.mr.SGE(0, 24), {}}})
			check(t, err)
		}
		clear(data)
		clear(a.buf)
		var first, second [64]byte
		for i := range 32 {
			wc := b.one()
			pattern(first[:], byte(wc.WRID))
			pattern(second[:], byte(wc.WRID+1))
			if got := b.buf[64*i:]; wc.ByteLen != 64 || !bytes.Equal(got[:40], first[:40]) || !bytes.Equal(got[40:64], second[:24]) {
				t.Fatalf("%v message %d: %+v", typ, i, wc)
			}
		}
		for _, wc := range a.poll(32) {
			check(t, wc.Err())
		}
	}
}

// TestUnsignaled: only signaled requests complete, in order; with SignalAll all requests do.
func TestUnsignaled(t *testing.T) {
	a, b := rcPair(t, 64)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	for i := range 300 { // more than the queue holds
		wr.ID, wr.Flags = uint64(i), 0
		if i%50 == 49 {
			wr.Flags = ib.SendSignaled
		}
		_, err := a.qp.PostSend(wr)
		check(t, err)
		if i%50 == 49 {
			if wc := a.one(); wc.WRID != uint64(i) {
				t.Fatalf("%+v", wc)
			}
		}
	}
	all := a.sibling(func(x *verbs.QPInitAttr) { x.SignalAll = true })
	connect(t, all, newEnd(t, ib.QPTypeRC, 8), ib.MTU256)
	_, err := all.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite})
	check(t, err)
	all.one()
}

// TestLongestMessage carries 2^31 bytes each way: the lists name the same 64 MiB
// and 4 MiB again and again, so that it takes time but little memory.
func TestLongestMessage(t *testing.T) { onBothPaths(t, longestMessage) }

func longestMessage(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("2 GiB each way take too long: run without -race and -short")
	}
	wide := func(a *verbs.QPInitAttr) { a.Cap.MaxSendSGE = 32 }
	a, b := newEnd(t, ib.QPTypeRC, 64<<20, wide), newEnd(t, ib.QPTypeRC, 4<<20)
	connect(t, a, b, ib.MTU4096)
	mr, err := b.pd.AllocMR(512)
	check(t, err)
	pieces := make([][]byte, 512)
	for i := range pieces {
		pieces[i] = b.buf
	}
	_, err = mr.Map(pieces, 0)
	check(t, err)
	key := mr.RKey().Next()
	wantStatus(t, b.post(verbs.SendWR{Opcode: ib.WRRegMR, Reg: &verbs.RegWR{MR: mr, Key: key, Access: allAccess &^ ib.AccessMWBind}}).Status, ib.WCSuccess)
	if mr.Length() != ib.MaxMessage {
		t.Fatalf("region of %d bytes", mr.Length())
	}
	var list []ib.SGE
	for range 32 {
		list = append(list, a.mr.SGE(0, 64<<20))
	}
	pattern(a.buf[60<<20:], 3)
	a.long(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: list, RKey: key})
	if !bytes.Equal(b.buf, a.buf[60<<20:]) {
		t.Error("the last 4 MiB are not there")
	}
	clear(a.buf)
	if wc := a.long(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: list, RKey: key}); wc.ByteLen != ib.MaxMessage {
		t.Errorf("%+v", wc)
	}
	if !bytes.Equal(b.buf, a.buf[:4<<20]) || !bytes.Equal(b.buf, a.buf[60<<20:]) {
		t.Error("not read as it is there")
	}
}

// long posts a work request and waits for it as long as it takes.
func (e *end) long(wr verbs.SendWR) ib.WC {
	e.t.Helper()
	wr.Flags = ib.SendSignaled
	_, err := e.qp.PostSend(wr)
	check(e.t, err)
	var wc [1]ib.WC
	for {
		n, err := e.cq.Poll(wc[:])
		check(e.t, err)
		if n == 1 {
			check(e.t, wc[0].Err())
			return wc[0]
		}
	}
}
