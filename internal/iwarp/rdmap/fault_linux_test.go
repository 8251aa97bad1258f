package rdmap

import (
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
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

// TestMemoryThatIsGone: the application unmaps what it has registered. Whatever
// wanted to touch it fails, at its own end and with a word to the other, and
// nothing is held.
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
	iov, n := b.s.Place(nil)
	if n != 2000 {
		t.Fatalf("room for %d bytes", n)
	}
	f.goes(t)
	b.s.HandlePlaced(iov, n) // for the CRC it is read again
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
