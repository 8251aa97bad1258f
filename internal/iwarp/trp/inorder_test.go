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
