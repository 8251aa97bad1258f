// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"unsafe"

	"verbena/ib"
	"verbena/verbs"
)

// post posts one signaled work request and returns its completion.
func (e *end) post(wr verbs.SendWR) ib.WC {
	e.t.Helper()
	wr.Flags |= ib.SendSignaled
	if e.peer != nil {
		e.peer.sync()
	}
	_, err := e.qp.PostSend(wr)
	check(e.t, err)
	return e.poll(1)[0]
}

// write writes n bytes of e's buffer to an address and key of the peer.
func (e *end) write(n int, addr uint64, key ib.RKey) ib.WCStatus {
	e.t.Helper()
	return e.post(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{e.mr.SGE(0, n)}, RemoteAddr: addr, RKey: key}).Status
}

// wantStatus checks how a work request ended.
func wantStatus(t testing.TB, got, want ib.WCStatus) {
	t.Helper()
	if got != want {
		t.Fatalf("status %v, want %v", got, want)
	}
}

// rcPair returns two connected ends.
func rcPair(t testing.TB, size int, change ...func(*ib.QPAttr)) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, ib.QPTypeRC, size), newEnd(t, ib.QPTypeRC, size)
	connect(t, a, b, ib.MTU1024, change...)
	return a, b
}

// reconnect connects two queue pairs again after an error.
func reconnect(t testing.TB, a, b *end) {
	t.Helper()
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	}
	connect(t, a, b, ib.MTU1024)
}

func TestZeroBasedRegion(t *testing.T) {
	a, b := rcPair(t, 256)
	pattern(a.buf, 3)
	zero, err := b.pd.RegMR(make([]byte, 128), allAccess|ib.AccessZeroBased)
	check(t, err)
	if zero.Addr() != 0 || zero.Length() != 128 {
		t.Errorf("address %#x, length %d", zero.Addr(), zero.Length())
	}
	wantStatus(t, a.write(64, 64, zero.RKey()), ib.WCSuccess)
	if !bytes.Equal(zero.Bytes()[64:], a.buf[:64]) || zero.Bytes()[63] != 0 {
		t.Error("not written where it should be")
	}
	wantStatus(t, a.write(65, 64, zero.RKey()), ib.WCRemAccessErr)
	_, err = b.pd.RegMRIOVA(make([]byte, 8), 8, ib.AccessZeroBased)
	wantError(t, err, syscall.EINVAL, "iova")
}

func TestRegionOfChosenAddress(t *testing.T) {
	a, b := rcPair(t, 256)
	high, err := b.pd.RegMRIOVA(make([]byte, 100), ^uint64(0)-99, allAccess)
	check(t, err)
	wantStatus(t, a.write(100, high.Addr(), high.RKey()), ib.WCSuccess)
	_, err = b.pd.RegMRIOVA(make([]byte, 100), ^uint64(0)-98, allAccess)
	wantError(t, err, syscall.EINVAL, "iova")
}

func TestRereg(t *testing.T) {
	a, b := rcPair(t, 256)
	old := b.mr.RKey()
	check(t, b.mr.Rereg(ib.ReregAccess, nil, nil, ib.AccessLocalWrite|ib.AccessRemoteRead))
	wantStatus(t, a.write(8, b.mr.Addr(), b.mr.RKey()), ib.WCRemAccessErr)
	reconnect(t, a, b)

	other := make([]byte, 512)
	check(t, b.mr.Rereg(ib.ReregTranslation|ib.ReregAccess, nil, other, allAccess))
	if b.mr.Length() != 512 || &b.mr.Bytes()[0] != &other[0] {
		t.Error("memory did not change")
	}
	wantStatus(t, a.write(256, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	wantStatus(t, a.write(8, b.mr.Addr(), old), ib.WCRemAccessErr)
	reconnect(t, a, b)

	pd, err := b.ctx.AllocPD()
	check(t, err)
	check(t, b.mr.Rereg(ib.ReregPD, pd, nil, 0))
	wantError(t, pd.Dealloc(), syscall.EBUSY, "PD")
	wantStatus(t, a.write(8, b.mr.Addr(), b.mr.RKey()), ib.WCRemAccessErr)

	// A refused call changes nothing.
	key := b.mr.RKey()
	wantError(t, b.mr.Rereg(0, nil, nil, 0), syscall.EINVAL, "flags")
	wantError(t, b.mr.Rereg(1<<5, nil, nil, 0), syscall.EINVAL, "flags")
	wantError(t, b.mr.Rereg(ib.ReregPD, nil, nil, 0), syscall.EINVAL, "pd")
	wantError(t, b.mr.Rereg(ib.ReregPD, a.pd, nil, 0), syscall.EINVAL, "pd")
	wantError(t, b.mr.Rereg(ib.ReregTranslation, nil, nil, 0), syscall.EINVAL, "buf")
	wantError(t, b.mr.Rereg(ib.ReregAccess, nil, nil, ib.AccessRemoteWrite), syscall.EINVAL, "access")
	if b.mr.RKey() != key {
		t.Error("a refused call changed the key")
	}
	check(t, b.mr.Dereg())
	check(t, pd.Dealloc())
	wantError(t, b.mr.Rereg(ib.ReregAccess, nil, nil, 0), syscall.EINVAL, "MR")
	wantError(t, b.mr.Dereg(), syscall.EINVAL, "MR")
}

// TestFastRegistration takes a region round: mapped, registered, used by the
// peer, invalidated locally and by the peer, each time under a new key.
func TestFastRegistration(t *testing.T) {
	a, b := rcPair(t, 1024)
	pattern(a.buf, 5)
	mr, err := b.pd.AllocMR(4)
	check(t, err)
	first, second := make([]byte, 100), make([]byte, 60)
	n, err := mr.Map([][]byte{first, second}, 0x10000)
	if check(t, err); n != 2 {
		t.Fatalf("%d segments taken", n)
	}
	key := mr.RKey().Next()
	reg := func(k ib.RKey) ib.WC {
		return b.post(verbs.SendWR{Opcode: ib.WRRegMR, Reg: &verbs.RegWR{MR: mr, Key: k, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite}})
	}
	if wc := reg(key); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCRegMR {
		t.Fatalf("completion %+v", wc)
	}
	wantStatus(t, a.write(120, 0x10000+20, key), ib.WCSuccess)
	if !bytes.Equal(first[20:], a.buf[:80]) || !bytes.Equal(second[:40], a.buf[80:120]) {
		t.Error("bytes are not where the list says")
	}
	if wc := b.post(verbs.SendWR{Opcode: ib.WRLocalInv, InvalidateRKey: key}); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCLocalInv {
		t.Fatalf("completion %+v", wc)
	}
	wantStatus(t, a.write(8, 0x10000, key), ib.WCRemAccessErr)
	reconnect(t, a, b)

	wantStatus(t, reg(key.Next()).Status, ib.WCSuccess)
	_, err = b.qp.PostRecv(verbs.RecvWR{ID: 3})
	check(t, err)
	if wc := a.post(verbs.SendWR{Opcode: ib.WRSendWithInv, InvalidateRKey: key.Next()}); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
	if wc := b.one(); wc.Flags&ib.WCWithInv == 0 || wc.InvalidatedRKey != key.Next() {
		t.Errorf("completion %+v", wc)
	}
	wantStatus(t, a.write(8, 0x10000, key.Next()), ib.WCRemAccessErr)
	reconnect(t, a, b)

	wantStatus(t, reg(key^1<<8).Status, ib.WCLocQPOpErr) // another slot's key
	if b.qp.State() != ib.QPErr {
		t.Error("a failed REG_MR leaves the queue pair as it was")
	}
	_, err = mr.Map([][]byte{first}, ^uint64(0)-50)
	wantError(t, err, syscall.EINVAL, "segs")
	_, err = b.mr.Map([][]byte{first}, 0)
	wantError(t, err, syscall.EINVAL, "segs")
	wantError(t, mr.Rereg(ib.ReregAccess, nil, nil, 0), syscall.EINVAL, "MR")
	check(t, mr.Dereg())
}

func TestMemoryWindowType1(t *testing.T) {
	a, b := rcPair(t, 1024)
	mw, err := b.pd.AllocMW(ib.MWType1)
	check(t, err)
	bind := func(off, n uint64, access ib.Access) ib.WC {
		check(t, b.qp.BindMW(mw, verbs.BindWR{ID: 7, Flags: ib.SendSignaled, MR: b.mr, Addr: b.mr.Addr() + off, Length: n, Access: access}))
		return b.poll(1)[0]
	}
	if wc := bind(100, 50, ib.AccessRemoteWrite); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCBindMW || wc.WRID != 7 {
		t.Fatalf("completion %+v", wc)
	}
	wantStatus(t, a.write(50, b.mr.Addr()+100, mw.RKey()), ib.WCSuccess)
	wantError(t, b.mr.Dereg(), syscall.EBUSY, "MR")
	wantError(t, b.mr.Rereg(ib.ReregAccess, nil, nil, allAccess), syscall.EBUSY, "MR")
	wantStatus(t, a.write(51, b.mr.Addr()+100, mw.RKey()), ib.WCRemAccessErr)
	reconnect(t, a, b)

	key := mw.RKey()
	wantStatus(t, bind(0, 50, ib.AccessRemoteRead).Status, ib.WCSuccess) // replaces
	wantStatus(t, a.write(8, b.mr.Addr()+100, key), ib.WCRemAccessErr)
	reconnect(t, a, b)
	check(t, b.qp.BindMW(mw, verbs.BindWR{Flags: ib.SendSignaled})) // length 0 takes it back
	b.one()
	check(t, mw.Dealloc())
	wantError(t, mw.Dealloc(), syscall.EINVAL, "MW")
	wantError(t, b.qp.BindMW(mw, verbs.BindWR{}), syscall.EINVAL, "Bind.MW")
	check(t, b.mr.Dereg())
}

func TestMemoryWindowType2(t *testing.T) {
	a, b := rcPair(t, 1024)
	mw, err := b.pd.AllocMW(ib.MWType2)
	check(t, err)
	bind := func(key ib.RKey, access ib.Access) ib.WC {
		return b.post(verbs.SendWR{Opcode: ib.WRBindMW, Bind: &verbs.BindWR{MW: mw, MR: b.mr, Addr: b.mr.Addr(), Length: 64, Access: access, RKey: key}})
	}
	key := mw.RKey().Next()
	wantStatus(t, bind(key, ib.AccessRemoteWrite).Status, ib.WCSuccess)
	wantStatus(t, a.write(64, b.mr.Addr(), key), ib.WCSuccess)

	// It is the queue pair's own: another one of the same domain may not use it.
	c, d := newEnd(t, ib.QPTypeRC, 64), b.sibling()
	connect(t, c, d, ib.MTU1024)
	wantStatus(t, c.write(64, b.mr.Addr(), key), ib.WCRemAccessErr)

	_, err = b.qp.PostRecv(verbs.RecvWR{})
	check(t, err)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSendWithInv, InvalidateRKey: key}).Status, ib.WCSuccess)
	b.one()
	wantStatus(t, a.write(8, b.mr.Addr(), key), ib.WCRemAccessErr)
	reconnect(t, a, b)

	wantStatus(t, bind(key.Next(), ib.AccessRemoteRead).Status, ib.WCSuccess)
	wantStatus(t, bind(key.Next().Next(), ib.AccessRemoteRead).Status, ib.WCMWBindErr) // is bound
	reconnect(t, a, b)
	wantStatus(t, b.post(verbs.SendWR{Opcode: ib.WRLocalInv, InvalidateRKey: key.Next()}).Status, ib.WCSuccess)
	check(t, mw.Dealloc())
}

// sibling returns another queue pair in e's domain and memory.
func (e *end) sibling(change ...func(*verbs.QPInitAttr)) *end {
	e.t.Helper()
	s := *e
	var err error
	s.cq, err = e.ctx.CreateCQ(256, nil)
	check(e.t, err)
	_, attr := e.qp.Query()
	attr.SendCQ, attr.RecvCQ = s.cq, s.cq
	for _, f := range change {
		f(&attr)
	}
	s.qp, err = e.pd.CreateQP(&attr)
	check(e.t, err)
	return &s
}

// sync orders the test's accesses to e's buffer before those that the device
// makes for the peer: the race detector does not see packets.
func (e *end) sync() { e.qp.State() }

// word returns the 8 bytes at off of e's buffer as an atomic work request
// names them.
func (e *end) word(off int) *uint64 { return (*uint64)(unsafe.Pointer(&e.buf[off])) }

func TestAtomics(t *testing.T) {
	a, b := rcPair(t, 64)
	*b.word(8) = 40
	add := verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey(), CompareAdd: 2}
	if wc := a.post(add); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCFetchAdd || wc.ByteLen != 8 || *a.word(0) != 40 || *b.word(8) != 42 {
		t.Fatalf("%+v: found %d, left %d", wc, *a.word(0), *b.word(8))
	}
	swap := add
	swap.Opcode, swap.CompareAdd, swap.Swap = ib.WRAtomicCmpAndSwp, 41, 1
	if wc := a.post(swap); wc.Status != ib.WCSuccess || *a.word(0) != 42 || *b.word(8) != 42 {
		t.Fatalf("%+v: a comparison that fails: found %d, left %d", wc, *a.word(0), *b.word(8))
	}
	swap.CompareAdd = 42
	if wc := a.post(swap); wc.Opcode != ib.WCCompSwap || *a.word(0) != 42 || *b.word(8) != 1 {
		t.Fatalf("%+v: found %d, left %d", wc, *a.word(0), *b.word(8))
	}

	binary.BigEndian.PutUint64(a.buf, 0x0102030405060708)
	write := verbs.SendWR{Opcode: ib.WRAtomicWrite, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 16, RKey: b.mr.RKey()}
	if wc := a.post(write); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCAtomicWrite || !bytes.Equal(b.buf[16:24], a.buf[:8]) {
		t.Fatalf("%+v: % x", wc, b.buf[16:24])
	}
	write.Flags, write.SGList, write.Inline = ib.SendInline, nil, []byte("inlined!")
	if wc := a.post(write); wc.Status != ib.WCSuccess || string(b.buf[16:24]) != "inlined!" {
		t.Fatalf("%+v: %q", wc, b.buf[16:24])
	}

	flush := verbs.SendWR{Opcode: ib.WRFlush, FlushType: ib.FlushGlobal | ib.FlushPersistent, FlushLength: 64, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	if wc := a.post(flush); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCFlush {
		t.Fatalf("%+v", wc)
	}
	flush.FlushLevel = ib.FlushMR
	wantStatus(t, a.post(flush).Status, ib.WCSuccess)
	plain, err := b.pd.RegMR(make([]byte, 8), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	check(t, err)
	flush.RemoteAddr, flush.RKey = plain.Addr(), plain.RKey()
	wantStatus(t, a.post(flush).Status, ib.WCRemAccessErr)
}

// TestAtomicsAreAtomic has four queue pairs add to one word, each result seen
// once.
func TestAtomicsAreAtomic(t *testing.T) { onBothPaths(t, atomicsAreAtomic) }

func atomicsAreAtomic(t *testing.T) {
	const lanes, adds = 4, 200
	b := newEnd(t, ib.QPTypeRC, 8)
	seen := make([]bool, lanes*adds)
	results := make(chan uint64, lanes*adds)
	for range lanes {
		x, y := newEnd(t, ib.QPTypeRC, 8), b.sibling()
		connect(t, x, y, ib.MTU1024)
		go func() {
			wr := verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, Flags: ib.SendSignaled, SGList: []ib.SGE{x.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 1}
			var wc [1]ib.WC
			for range adds {
				if _, err := x.qp.PostSend(wr); err != nil {
					t.Error(err)
				}
				for wc[0].Status = 0; ; {
					if n, err := x.cq.Poll(wc[:]); n > 0 || err != nil {
						break
					}
				}
				if wc[0].Status != ib.WCSuccess {
					t.Error(wc[0].Err())
				}
				results <- *x.word(0)
			}
		}()
	}
	for range lanes * adds {
		v := <-results
		if v >= lanes*adds || seen[v] {
			t.Fatalf("%d was found twice or never was", v)
		}
		seen[v] = true
	}
	if t.Failed() {
		return
	}
	if *b.word(0) != lanes*adds {
		t.Errorf("%d in the end", *b.word(0))
	}
}

// wantError checks that a call was refused with an errno, naming the argument.
func wantError(t testing.TB, err error, errno syscall.Errno, arg string) {
	t.Helper()
	var e *verbs.Error
	if !errors.As(err, &e) || !errors.Is(err, errno) || e.Arg != arg {
		t.Errorf("got %v, want %v of %s", err, errno, arg)
	}
}
