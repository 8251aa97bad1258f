package trp

import (
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/mem"
)

// The application unmaps memory that it has posted: the association ends, with
// a word to the peer, and what was sent before goes out.
func TestMemoryThatIsGone(t *testing.T) {
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	m := &memory{t: t, bytes: b, table: mem.NewTable(func() uint32 { return 1 })}
	if m.region, err = m.table.Register(pd, b, 0, ib.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	for _, before := range []int{0, 1} {
		s := established(t, Config{})
		for range before {
			s.c.Send(segment0(0))
		}
		s.c.Send([]byte("h"), m.span(0, 10))
		if err := unix.Mprotect(b, unix.PROT_NONE); err != nil { // as unmapped, but nobody else gets the addresses
			t.Fatal(err)
		}
		s.poll()
		for range before {
			s.wantData(0, 0)
		}
		s.wantFIN(uint64(before)+1, 0)
		s.wantEvent(EventDisconnected, BadMemory)
		wantEqual(t, "memory is released", m.region.Idle(), true)
	}
}

// Long payload is read by the system only, which tells when it cannot.
func TestFaultOfTheWrite(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 4096)
	s.c.Send([]byte("h"), m.span(0, 4096))
	if !s.c.PollOutput(s.now, s.burst) {
		t.Fatal("nothing to write")
	}
	s.c.HandleFault(s.now)
	s.burst.Reset()
	s.poll()
	s.wantFIN(1, 0)
	s.wantEvent(EventDisconnected, BadMemory)
	wantEqual(t, "memory is released", m.region.Idle(), true)
	s.c.HandleFault(s.now) // of another train
	s.wantNoEvent()
}
