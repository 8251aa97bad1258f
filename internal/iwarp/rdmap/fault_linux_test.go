// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/testkit/pages"
	wire "verbena/internal/wire/iwarp"
)

// fleeting is memory of an end that may be taken away under it.
type fleeting struct {
	*mem.Region
	bytes []byte
}

const fleetingAt uint64 = 0x900000

func newFleeting(t *testing.T, e *end) *fleeting {
	t.Helper()
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	r, err := e.table.Register(pd, b, fleetingAt, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	return &fleeting{r, b}
}

// goes is as unmapped, but nobody else gets the addresses.
func (f *fleeting) goes(t *testing.T) {
	t.Helper()
	if err := unix.Mprotect(f.bytes, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
}

func (f *fleeting) sge(n int) ib.SGE {
	return ib.SGE{Addr: fleetingAt, Length: uint32(n), LKey: f.LKey()}
}

// TestMemoryThatIsGone: the application unmaps memory that it has registered. An operation on it
// fails at its own end, the peer gets a Terminate, and nothing stays held.
func TestMemoryThatIsGone(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite} {
		a, b := pair(t)
		f := newFleeting(t, a)
		f.goes(t)
		a.post(a.read(0, 10, b, 0), queue.SendWQE{Opcode: op, Length: 2000, SGE: []ib.SGE{f.sge(2000)}, RemoteAddr: base, RKey: b.mr.RKey()})
		carry(a, b)
		a.wantWC("before", 1, ib.WCSuccess)
		if wc := a.wantWC(op.String(), 2, ib.WCLocProtErr); wc.VendorErr != ib.VendorFault {
			t.Errorf("%v: %v", op, wc.VendorErr)
		}
		b.wantState(op.String(), ib.QPErr)
		b.wantUntouched(op.String(), 0, 2000)
		if !f.Idle() {
			t.Errorf("%v: memory is held", op)
		}
	}

	a, b := pair(t)
	f := newFleeting(t, b)
	f.goes(t)
	a.post(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 2000, SGE: []ib.SGE{a.sge(0, 2000)}, RemoteAddr: fleetingAt, RKey: f.RKey()})
	carry(a, b)
	a.wantWC("READ of what is gone", 1, ib.WCRemOpErr)
	b.wantEvent("READ of what is gone", ib.EventQPAccessErr)
	a.wantUntouched("READ of what is gone", 0, 2000)
	if !f.Idle() {
		t.Error("memory is held")
	}
}

// TestUnmappedTarget: payload for memory that is not mapped goes nowhere, whether it is
// copied there or was to be read there, and the stream goes on.
func TestUnmappedTarget(t *testing.T) {
	a, b := pair(t)
	m := pages.New(t, 1)
	r, err := b.table.Register(pd, m, fleetingAt, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	m.Unmap(t, 0, 1)
	w := a.write(0, 2000, b, 0)
	w.RemoteAddr, w.RKey = fleetingAt, r.RKey()
	a.post(w)
	head := wire.LengthBytes + wire.TaggedBytes
	b.take(a.out[:head], whole, never)
	iov, n := b.s.Place(nil, b.gaps[:])
	if n == 0 {
		t.Fatal("not to be read straight to its place")
	}
	b.s.HandlePlaced(0, iov, 0)
	b.s.Unplaceable() // as readv found
	if _, n := b.s.Place(nil, b.gaps[:]); n != 0 {
		t.Errorf("%d bytes are to be read there again", n)
	}
	was := mem.Unplaced()
	b.take(a.out[head:], whole, never)
	a.out = nil
	if n := mem.Unplaced() - was; n != 2000 {
		t.Errorf("%d bytes counted", n)
	}
	a.wantWC("WRITE", 1, ib.WCSuccess)
	b.postRecv(7, b.sge(0, 1000))
	a.fill(0, 1000, 3)
	a.post(a.send(0, 1000))
	head = wire.LengthBytes + wire.UntaggedBytes
	b.take(a.out[:head], whole, never)
	if _, n := b.s.Place(nil, b.gaps[:]); n != 1000 {
		t.Errorf("the next segment: %d bytes are to be read straight to their place", n)
	}
	b.s.HandlePlaced(0, nil, 0)
	b.take(a.out[head:], whole, never)
	b.wantRecv("what comes behind", 7, ib.WCSuccess)
	b.wantBytes("what comes behind", 0, a.bytes[:1000])
	if !r.Idle() {
		t.Error("memory is held")
	}
}

// TestTargetThatIsGone is placed to in vain, however the payload comes.
func TestTargetThatIsGone(t *testing.T) {
	write := func(b *end, f *fleeting) []byte {
		return segment(tagged(wire.RDMAWrite, true, f.RKey(), fleetingAt), make([]byte, 2000)...)
	}
	_, b := pair(t)
	f := newFleeting(t, b)
	f.goes(t)
	b.take(write(b, f), whole, never)
	b.wantTerminate(wire.RDMAPUnspecific)
	b.wantEvent("copied", ib.EventQPAccessErr)

	_, b = pair(t)
	f = newFleeting(t, b)
	s := write(b, f)
	head := wire.LengthBytes + wire.TaggedBytes
	b.take(s[:head], whole, never)
	iov, n := b.s.Place(nil, b.gaps[:])
	if n != 2000 {
		t.Fatalf("room for %d bytes", n)
	}
	f.goes(t)
	b.s.HandlePlaced(0, iov, n) // for the CRC it is read again
	b.take(s[head+n:], whole, never)
	b.wantTerminate(wire.RDMAPUnspecific)
	if !f.Idle() {
		t.Error("memory is held")
	}

	a, b := pair(t)
	f = newFleeting(t, b)
	f.goes(t)
	b.postRecv(7, f.sge(100))
	a.post(a.send(0, 100))
	carry(a, b)
	b.wantRecv("the receiver's own fault", 7, ib.WCLocProtErr)
	b.wantEvent("the receiver's own fault", ib.EventQPFatal)
	a.wantState("told", ib.QPErr)
}
