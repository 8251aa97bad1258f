// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"testing"
	"unsafe"

	"verbena/ib"
)

// poller owns a ring and polls it by itself, as C does.
type poller struct {
	r     Ring
	slots []ib.WC
}

func (p *poller) poll() (ids []uint64) {
	h := p.r.head.Load()
	for ; h != p.r.tail.Load(); h++ {
		ids = append(ids, p.slots[h&p.r.mask].WRID)
	}
	p.r.head.Store(h)
	return ids
}

// The owner's memory holds the times of completions, and new times come with new slots.
func TestTimesOfAnother(t *testing.T) {
	p := poller{slots: make([]ib.WC, 2)}
	if _, err := NewCQIn(&p.r, p.slots, make([]ib.WCTime, 1), 2); !errors.Is(err, ErrInvalid) {
		t.Errorf("fewer times than slots: %v", err)
	}
	times := make([]ib.WCTime, 2)
	q, err := NewCQIn(&p.r, p.slots, times, 2)
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(10)
	q.Clock = func() ib.WCTime { now++; return ib.WCTime{Device: now} }
	q.Push(&ib.WC{WRID: 1}, false)
	p.poll()
	q.Push(&ib.WC{WRID: 2}, false)
	q.Push(&ib.WC{WRID: 3}, false)
	if times[1].Device != 12 || times[0].Device != 13 {
		t.Errorf("times %v", times)
	}
	if err := q.ResizeIn(4, make([]ib.WC, 4), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no times for new slots: %v", err)
	}
	times = make([]ib.WCTime, 4)
	if err := q.ResizeIn(4, make([]ib.WC, 4), times); err != nil {
		t.Fatal(err)
	}
	if times[1].Device != 12 || times[2].Device != 13 {
		t.Errorf("after ResizeIn: times %v", times)
	}
}

func TestRingOfAnother(t *testing.T) {
	p := poller{slots: make([]ib.WC, 4)}
	q, err := NewCQIn(&p.r, p.slots, nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	push := func(id uint64, qpn ib.QPN) bool { return q.Push(&ib.WC{WRID: id, QPN: qpn}, false) }
	want := func(what string, want ...uint64) {
		t.Helper()
		got := p.poll()
		if len(got) != len(want) {
			t.Fatalf("%s: polled %v, want %v", what, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: polled %v, want %v", what, got, want)
			}
		}
	}
	push(1, 7)
	push(2, 8)
	want("in order", 1, 2)

	push(3, 7)
	push(4, 8)
	push(5, 7)
	if n := q.Purge(7); n != 2 {
		t.Errorf("purged %d completions, want 2", n)
	}
	want("after a purge", 4)

	push(6, 7)
	push(7, 7)
	if err := q.Resize(8); !errors.Is(err, ErrInvalid) {
		t.Errorf("Resize without memory: %v", err)
	}
	if err := q.ResizeIn(8, make([]ib.WC, 6), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("ResizeIn to 6 slots: %v", err)
	}
	if err := q.ResizeIn(1, make([]ib.WC, 1), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("ResizeIn below what is held: %v", err)
	}
	larger := make([]ib.WC, 8)
	if err := q.ResizeIn(8, larger, nil); err != nil {
		t.Fatal(err)
	}
	if p.r.mask != 7 || p.r.base != uintptr(unsafe.Pointer(&larger[0])) {
		t.Errorf("after ResizeIn the ring tells mask %d, slots at %#x", p.r.mask, p.r.base)
	}
	p.slots = larger
	for id := uint64(8); id < 14; id++ {
		if !push(id, 7) {
			t.Fatalf("no room for %d", id)
		}
	}
	want("after a resize", 6, 7, 8, 9, 10, 11, 12, 13)

	for range 9 {
		push(1, 7)
	}
	if !q.Overflowed() || p.r.overrun.Load() == 0 {
		t.Error("the ninth completion of eight was not told as lost")
	}
}
