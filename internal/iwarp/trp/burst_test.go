// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"testing"
	"unsafe"

	"verbena/internal/monotime"
	"verbena/internal/rtt"
	wire "verbena/internal/wire/trp"
)

// pointsInto reports whether one of the slices lies within memory.
func pointsInto(slices [][]byte, memory []byte) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, s := range slices {
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(s))); at >= from && at < from+uintptr(len(memory)) {
			return true
		}
	}
	return false
}

// Payload goes out from where it is; the memory is held until it is acknowledged and written. A
// segment that is sent again is copied first: so memory that the system could not read is found
// out.
func TestPayloadIsNotCopied(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 8192)
	s.c.Send([]byte("head"), m.span(0, 1000), m.span(4000, 24))
	write := func(copied bool) []byte {
		t.Helper()
		if !s.c.PollOutput(s.now, s.burst) {
			t.Fatal("nothing to write")
		}
		s.burst.Seal()
		wantEqual(t, "the payload is copied", !pointsInto(s.burst.Iov(), m.bytes), copied)
		return bytes.Join(s.burst.Iov(), nil)
	}
	want := append(ack(0, 0).Append(nil), "head"...)
	want = append(append(want, m.bytes[:1000]...), m.bytes[4000:4024]...)
	if got := write(false); !bytes.Equal(got, want) {
		t.Errorf("sent %x, want %x", got, want)
	}
	s.burst.Reset()
	wantEqual(t, "idle after the write", m.region.Idle(), false)
	s.now = s.now.Add(rtt.First)
	s.c.HandleTimeout(s.now)
	if got := write(true); !bytes.Equal(got, want) {
		t.Errorf("sent again %x, want %x", got, want)
	}
	s.burst.Reset()
	s.c.HandleInput(s.now, s.from, ack(0, 1).Append(nil))
	wantEqual(t, "idle when acknowledged", m.region.Idle(), true)
	s.c.Send([]byte("head"), m.span(0, 1000))
	write(false)
	s.c.HandleInput(s.now, s.from, ack(0, 2).Append(nil))
	wantEqual(t, "idle before the write", m.region.Idle(), false)
	s.burst.Reset()
	wantEqual(t, "idle when acknowledged and written", m.region.Idle(), true)
}

func TestShortPayloadIsCopied(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 1024)
	s.c.Send([]byte("head"), m.span(0, 100), m.span(512, 412))
	s.c.PollOutput(s.now, s.burst)
	s.burst.Seal()
	if len(s.burst.Iov()) != 1 || pointsInto(s.burst.Iov(), m.bytes) {
		t.Errorf("%d pieces", len(s.burst.Iov()))
	}
	if got := s.burst.Iov()[0][wire.HeaderBytes+4:]; !bytes.Equal(got, append(bytes.Clone(m.bytes[:100]), m.bytes[512:924]...)) {
		t.Errorf("sent %x", got)
	}
}

// One UDP_SEGMENT send carries a burst: datagrams of one size, bounded in number and bytes. The
// last may be shorter.
func TestBursts(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
		limit int
		want  []int
	}{
		{"equal", []int{100, 100, 100}, 0, []int{3}},
		{"a shorter one ends it", []int{100, 50, 50, 100}, 0, []int{2, 1, 1}},
		{"a longer one waits", []int{50, 100}, 0, []int{1, 1}},
		{"64 at most", make([]int, 70), 0, []int{64, 6}},
		{"no bursts", []int{100, 100}, 1, []int{1, 1}},
		{"65,000 bytes at most", []int{30000, 30000, 30000}, 0, []int{2, 1}},
		{"the longest", []int{MaxSegmentBytes, MaxSegmentBytes}, 0, []int{1, 1}},
	} {
		s := established(t, Config{})
		if c.limit > 0 {
			s.burst.Limit(c.limit)
		}
		s.c.loss.Widen()
		for _, n := range c.sizes {
			s.c.Send(make([]byte, max(n, 1)))
		}
		s.bursts = nil
		s.now = s.now.Add(monotime.Millisecond)
		var bursts []int
		for s.c.PollOutput(s.now, s.burst) {
			bursts = append(bursts, s.burst.Len())
			s.burst.Reset()
		}
		if len(bursts) != len(c.want) {
			t.Errorf("%s: bursts of %v, want %v", c.name, bursts, c.want)
			continue
		}
		for i := range bursts {
			if bursts[i] != c.want[i] {
				t.Errorf("%s: bursts of %v, want %v", c.name, bursts, c.want)
				break
			}
		}
	}
}

func TestOversizeIsAFault(t *testing.T) {
	for _, n := range []int{0, MaxSegmentBytes + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a segment of %d bytes was taken", n)
				}
			}()
			established(t, Config{}).c.Send(make([]byte, n))
		}()
	}
}

// Sending, receiving and acknowledging allocate nothing once the ring is there.
func TestDataPathDoesNotAllocate(t *testing.T) {
	s := established(t, Config{Window: 64})
	m := newMemory(t, 8192)
	s.c.upper = silent{}
	head := make([]byte, 14)
	in := make([]byte, 0, 100)
	now := s.now
	step := func() {
		for range 32 {
			s.c.Send(head, m.span(0, 1000))
		}
		for s.c.PollOutput(now, s.burst) {
			s.burst.Seal()
			s.burst.Reset()
		}
		now = now.Add(50 * monotime.Microsecond)
		s.c.HandleTimeout(now)
		next := s.c.snd.next
		for _, p := range []wire.Packet{sack(next-3, next), ack(s.c.rcv.next, next), {Header: wire.Header{PSN: wire.PSN(s.c.rcv.next), AckPSN: wire.PSN(next)}, Payload: head}} {
			in = p.Append(in[:0])
			s.c.HandleInput(now, s.from, in)
		}
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Errorf("%v allocations for 32 segments", n)
	}
}

// silent is an upper layer that takes everything.
type silent struct{}

func (silent) HandleSegment(monotime.Time, uint64, []byte) bool { return true }
func (silent) HandleInOrder(monotime.Time, uint64)              {}
func (silent) HandleAcked(monotime.Time, uint64)                {}
