// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/pages"
	"verbena/verbs"
)

// TestUnmappedMemory: a program unmaps memory that a peer writes to. On each transport the bytes go
// nowhere and the connection goes on. Only operations that must read the memory fail.
func TestUnmappedMemory(t *testing.T) {
	const size = 1 << 16
	roce := func(t *testing.T) (a, b *end) {
		a, b = newEnd(t, ib.QPTypeRC, size), newEnd(t, ib.QPTypeRC, size)
		connect(t, a, b, ib.MTU1024)
		return a, b
	}
	t.Run("RoCE", func(t *testing.T) {
		onBothPaths(t, func(t *testing.T) { a, b := roce(t); unmapUnder(t, a, b) })
	})
	t.Run("UC", func(t *testing.T) {
		a, b := newEnd(t, ib.QPTypeUC, size), newEnd(t, ib.QPTypeUC, size)
		connect(t, a, b, ib.MTU1024)
		unmapUnder(t, a, b)
	})
	t.Run("iWARP", func(t *testing.T) { a, b := iwarpEnds(t, size); unmapUnder(t, a, b) })
	t.Run("TRP", func(t *testing.T) { a, b := trpEnds(t, size); unmapUnder(t, a, b) })
	for _, kind := range []string{"shm", "tcp"} {
		t.Run("NTB/"+kind, func(t *testing.T) { a, b := ntbEnds(t, kind, size); unmapUnder(t, a, b) })
	}
}

// fleetingMR registers three pages and then unmaps one.
func (e *end) fleetingMR(t *testing.T) (pages.Memory, *verbs.MR) {
	m := pages.New(t, 3)
	mr, err := e.pd.RegMR(m, allAccess)
	check(t, err)
	t.Cleanup(func() { check(t, mr.Dereg()) })
	m.Unmap(t, 1, 1)
	return m, mr
}

func unmapUnder(t *testing.T, a, b *end) {
	all, page := 3*pages.Size, pages.Size
	pattern(a.buf, 1)
	there, target := b.fleetingMR(t)
	here, sink := a.fleetingMR(t)
	was := b.counter("unmapped_bytes")
	counted := func(what string) {
		t.Helper()
		now := b.counter("unmapped_bytes")
		if now-was != uint64(page) {
			t.Errorf("%s: %d bytes counted, want %d", what, now-was, page)
		}
		was = now
	}
	arrived := func(what string, at []byte, want []byte) {
		t.Helper()
		if !bytes.Equal(at[:page], want[:page]) || !bytes.Equal(at[2*page:all], want[2*page:all]) {
			t.Errorf("%s: the pages around the one that is not mapped differ", what)
		}
		clear(at[:page])
		clear(at[2*page:])
	}
	write := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, all)}, RemoteAddr: target.Addr(), RKey: target.RKey()}
	send := verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, all)}}
	read := verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{sink.SGE(0, all)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	receive := func(mr *verbs.MR) {
		t.Helper()
		_, err := b.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{mr.SGE(0, all)}})
		check(t, err)
		wantStatus(t, a.post(send).Status, ib.WCSuccess)
		if wc := b.one(); wc.ByteLen != uint32(all) {
			t.Errorf("%d bytes received", wc.ByteLen)
		}
	}

	wantStatus(t, a.post(write).Status, ib.WCSuccess)
	receive(b.mr) // it comes behind the WRITE
	counted("WRITE")
	arrived("WRITE", there, a.buf)
	receive(target)
	counted("SEND")
	arrived("SEND", there, a.buf)
	if a.qp.Type() == ib.QPTypeRC {
		wantStatus(t, a.post(read).Status, ib.WCSuccess)
		counted("READ")
		arrived("READ", here, b.buf)

		read.SGList, read.RemoteAddr, read.RKey = []ib.SGE{a.mr.SGE(0, all)}, target.Addr(), target.RKey()
		before := bytes.Clone(a.buf[page : 2*page])
		if a.post(read).Status == ib.WCSuccess {
			t.Error("READ of what is not mapped: success")
		}
		if !bytes.Equal(before, a.buf[page:2*page]) {
			t.Error("READ of what is not mapped brought something")
		}
	}
}
