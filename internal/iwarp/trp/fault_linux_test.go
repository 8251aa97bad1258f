// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/rtt"
)

// newFleeting returns memory that may be taken away.
func newFleeting(t *testing.T) *memory {
	t.Helper()
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	m := &memory{t: t, bytes: b, table: mem.NewTable(func() uint32 { return 1 })}
	if m.region, err = m.table.Register(pd, b, 0, ib.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	return m
}

// goes is as unmapped, but nobody else gets the addresses.
func (m *memory) goes() {
	m.t.Helper()
	if err := unix.Mprotect(m.bytes, unix.PROT_NONE); err != nil {
		m.t.Fatal(err)
	}
}

// The application unmaps memory that it has posted. The association ends, the peer is notified, and
// earlier segments go out.
func TestMemoryThatIsGone(t *testing.T) {
	m := newFleeting(t)
	for _, before := range []int{0, 1} {
		s := established(t, Config{})
		for range before {
			s.c.Send(segment0(0))
		}
		s.c.Send([]byte("h"), m.span(0, 10))
		m.goes()
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
	s.c.HandleFault(s.now) // of another burst
	s.wantNoEvent()
}

// The system drops a datagram that it cannot read. Before the segment is sent again its memory is
// checked.
func TestFaultThatTheSystemSwallows(t *testing.T) {
	m := newFleeting(t)
	s := established(t, Config{})
	s.c.Send([]byte("h"), m.span(0, 1024))
	if !s.c.PollOutput(s.now, s.burst) {
		t.Fatal("nothing to write")
	}
	s.burst.Reset()
	m.goes()
	s.now = s.now.Add(rtt.First)
	s.c.HandleTimeout(s.now)
	s.poll()
	s.wantFIN(1, 0)
	s.wantEvent(EventDisconnected, BadMemory)
}

// A segment whose memory is given back goes out with its old bytes, whatever becomes of the memory.
func TestGiveBack(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 4096)
	want := bytes.Clone(m.bytes[:2048])
	s.c.Send([]byte("h"), m.span(0, 1024), m.span(1024, 1024))
	s.c.GiveBack(s.now)
	wantEqual(t, "memory is released", m.region.Idle(), true)
	clear(m.bytes)
	if !s.c.PollOutput(s.now, s.burst) {
		t.Fatal("nothing to write")
	}
	s.burst.Seal()
	if got := bytes.Join(s.burst.Iov(), nil); !bytes.Equal(got[11:], want) {
		t.Error("what went out is not what was queued")
	}
	s.burst.Reset()
}
