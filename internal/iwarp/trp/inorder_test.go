// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"fmt"
	"testing"

	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// line is a layer that records its input.
type line struct {
	got   []string
	until int // segments it wants
	acked uint64
}

func (l *line) HandleNext(_ monotime.Time, segment []byte) bool {
	l.got = append(l.got, string(segment))
	return len(l.got) < l.until
}

func (l *line) HandleAcked(_ monotime.Time, next uint64) { l.acked = next }

func lined(t *testing.T, until int) (*script, *line, *InOrder) {
	t.Helper()
	s := established(t, Config{})
	l := &line{until: until}
	o := NewInOrder(l, mem.NewBudget(4<<20))
	s.c.upper = o
	return s, l, o
}

func TestInOrder(t *testing.T) {
	s, l, o := lined(t, 100)
	s.recv(data(2, 0), data(0, 0), data(5, 0), data(3, 0), data(2, 0))
	wantEqual(t, "came up", fmt.Sprint(l.got), "[segment 000000]")
	s.recv(data(1, 0))
	wantEqual(t, "came up", fmt.Sprint(l.got), "[segment 000000 segment 000001 segment 000002 segment 000003]")
	s.recv(data(4, 0))
	wantEqual(t, "the last", l.got[len(l.got)-1], "segment 000005")
	wantEqual(t, "held", o.bytes+len(o.held), 0)
	s.send(1)
	s.recv(ack(6, 1))
	wantEqual(t, "acknowledged", l.acked, 1)
}

// beyond receives n segments beyond a gap, and then those in front.
func beyond(s *script, n uint64, front ...wire.Packet) {
	for psn := uint64(1); psn <= n; psn++ {
		s.recv(data(psn, 0))
	}
	s.sent = nil
	s.recv(front...)
}

// A gap that closes does not have all segments behind it come up in one call.
func TestInOrderInParts(t *testing.T) {
	const held = 2*inOrderAtOnce + 10
	s, l, o := lined(t, held+10)
	beyond(s, held, data(0, 0))
	wantEqual(t, "came up", len(l.got), inOrderAtOnce+1)
	s.wantACK(0, inOrderAtOnce+1) // no farther than what came up
	due := s.c.NextTimeout()
	wantEqual(t, "due", due, s.now.Add(1))

	// Packets that arrive meanwhile do not put off the next part, nor come up before it. No SACK
	// says that the next segment is missing, as it is not.
	s.now = due
	s.recv(data(inOrderAtOnce+1, 0), data(held, 0), data(held+2, 0))
	wantEqual(t, "came up", len(l.got), inOrderAtOnce+1)
	wantEqual(t, "due", s.c.NextTimeout(), due)
	s.wantCount(Duplicate, 2)
	s.wantNothing()

	s.c.HandleTimeout(s.now)
	s.poll()
	wantEqual(t, "came up", len(l.got), 2*inOrderAtOnce+1)
	s.wantACK(0, 2*inOrderAtOnce+1)
	s.pass(1)
	wantEqual(t, "came up", len(l.got), held+1)
	s.wantSACK(held+2, held+3)
	s.wantACK(0, held+1)
	s.recv(data(held+1, 0))
	for i, got := range l.got {
		wantEqual(t, "segment", got, string(segment0(uint64(i))))
	}
	wantEqual(t, "came up", len(l.got), held+3)
	wantEqual(t, "held", o.bytes+len(o.held), 0)
}

// No segment comes up once the association has ended, though it had arrived.
func TestInOrderInPartsEnds(t *testing.T) {
	for name, end := range map[string]func(s *script){
		"abort": func(s *script) { s.c.Abort(s.now) },
		"FIN":   func(s *script) { s.recv(fin(2*inOrderAtOnce, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, l, o := lined(t, 4*inOrderAtOnce)
			beyond(s, 2*inOrderAtOnce, data(0, 0))
			end(s)
			s.pass(monotime.Microsecond)
			wantEqual(t, "came up", len(l.got), inOrderAtOnce+1)
			o.Discard()
			wantEqual(t, "left of the budget", o.budget.Left(), 4<<20)
		})
	}
}

// A layer that has had enough gets no more, though more was there.
func TestInOrderEnds(t *testing.T) {
	s, l, o := lined(t, 2)
	s.recv(data(1, 0), data(2, 0), data(0, 0), data(3, 0))
	wantEqual(t, "came up", fmt.Sprint(l.got), "[segment 000000 segment 000001]")
	wantEqual(t, "held", o.bytes+len(o.held), 0)
	s.wantCount(RefusedByUpper, 1)
}

// A segment beyond the bound comes again when the gap is closed.
func TestInOrderIsBounded(t *testing.T) {
	s, l, o := lined(t, 1000)
	big := func(psn uint64) wire.Packet {
		return wire.Packet{Header: wire.Header{PSN: wire.PSN(psn)}, Payload: bytes.Repeat([]byte{byte(psn)}, 32<<10)}
	}
	for psn := uint64(1); psn < 100; psn++ {
		s.recv(big(psn))
	}
	const most = 2 << 20 / (32<<10 + segmentBytes) // half of the budget
	wantEqual(t, "held", o.bytes, most*(32<<10+segmentBytes))
	s.wantCount(RefusedByUpper, 99-most)
	s.sent = nil
	s.recv(big(0))
	s.wantACK(0, most+1)
	for psn := uint64(most + 1); psn < 100; psn++ {
		s.recv(big(psn))
	}
	wantEqual(t, "came up", len(l.got), 100)
	for i, b := range l.got {
		if b[0] != byte(i) {
			t.Fatalf("segment %d is %d", i, b[0])
		}
	}
	s.recv(big(102), big(103))
	o.Discard()
	s.recv(big(104), big(100))
	wantEqual(t, "came up after the end", len(l.got), 100)
	wantEqual(t, "left of the budget", o.budget.Left(), 4<<20)
}
