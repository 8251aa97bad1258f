// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"testing"

	"verbena/ib"
)

func TestTagList(t *testing.T) {
	var wcs []ib.WC
	s := NewSRQ(4, 1, nil)
	l := NewTagList(s, 3, 1, func(wc *ib.WC, _ bool) bool { wcs = append(wcs, *wc); return true })
	post := func(wr ib.TagWR, want error) uint32 {
		t.Helper()
		if err := l.Post(&wr); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		return wr.Handle
	}
	wantWC := func(want ib.WC) {
		t.Helper()
		if len(wcs) != 1 || wcs[0] != want {
			t.Fatalf("%+v, want %+v", wcs, want)
		}
		wcs = nil
	}
	take := func(tag uint64, id uint64, matched, ok bool) {
		t.Helper()
		var w RecvWQE
		if m, o := l.Take(&w, tag); m != matched || o != ok || ok && w.WRID != id {
			t.Fatalf("%v %v %d, want %v %v %d", m, o, w.WRID, matched, ok, id)
		}
	}
	a := post(ib.TagWR{ID: 1, Flags: ib.TagSignaled, RecvID: 11, Tag: 1, Mask: 0xff}, nil)
	wantWC(ib.WC{WRID: 1, Opcode: ib.WCTMAdd})
	b := post(ib.TagWR{RecvID: 12}, nil) // matches all
	post(ib.TagWR{RecvID: 13, Tag: 1, Mask: 0xff}, nil)
	post(ib.TagWR{RecvID: 14}, ErrFull)
	post(ib.TagWR{SGList: make([]ib.SGE, 2)}, ErrInvalid)
	post(ib.TagWR{Opcode: ib.TagSync + 1}, ErrInvalid)
	post(ib.TagWR{Flags: 4}, ErrInvalid)
	take(0x101, 11, true, true)
	take(0x101, 12, true, true)
	take(0x101, 13, true, true)
	take(0x101, 0, false, false) // nobody may have it: it is not counted
	post(ib.TagWR{ID: 2, Opcode: ib.TagDel, Handle: a}, nil)
	wantWC(ib.WC{WRID: 2, Opcode: ib.WCTMDel, Status: ib.WCTMErr})
	if c := post(ib.TagWR{RecvID: 15, Tag: 1, Mask: 1}, nil); c == a || c == b {
		t.Errorf("handle %#x again", c)
	}
	post(ib.TagWR{ID: 3, Opcode: ib.TagDel, Handle: 1<<32 - 1}, nil)
	wantWC(ib.WC{WRID: 3, Opcode: ib.WCTMDel, Status: ib.WCTMErr})
	if err := s.Post(20, nil); err != nil {
		t.Fatal(err)
	}
	take(2, 20, false, true)
	d := post(ib.TagWR{ID: 4, Flags: ib.TagSignaled, RecvID: 16, Tag: 2, Mask: 2}, nil)
	wantWC(ib.WC{WRID: 4, Opcode: ib.WCTMAdd, Flags: ib.WCTMSyncReq})
	take(2, 0, false, false) // it waits
	take(1, 15, true, true)  // the older one does not
	if n, enabled := l.Len(); n != 1 || enabled != 0 {
		t.Errorf("%d, %d", n, enabled)
	}
	post(ib.TagWR{ID: 5, Opcode: ib.TagDel, Flags: ib.TagSignaled | ib.TagUnexpected, UnexpectedCnt: 1, Handle: d}, nil)
	wantWC(ib.WC{WRID: 5, Opcode: ib.WCTMDel})
	if n, _ := l.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
	l.Close()
	post(ib.TagWR{Opcode: ib.TagSync, Flags: ib.TagSignaled}, ErrClosed)
	if len(wcs) != 0 {
		t.Errorf("%+v after the end", wcs)
	}
}

// The counts of unexpected messages wrap, and one that is behind enables nothing.
func TestTagListCounts(t *testing.T) {
	s := NewSRQ(4, 1, nil)
	l := NewTagList(s, 8, 1, func(*ib.WC, bool) bool { return true })
	l.unexpected, l.handled = 1<<32-2, 1<<32-2
	var w RecvWQE
	for range 3 {
		if err := s.Post(1, nil); err != nil {
			t.Fatal(err)
		}
		l.Take(&w, 5)
	}
	for i, c := range []struct {
		handled uint32
		enabled int
	}{{1<<32 - 1, 0}, {0, 0}, {2, 0}, {1, 4}} {
		wr := ib.TagWR{Flags: ib.TagUnexpected, UnexpectedCnt: c.handled}
		if err := l.Post(&wr); err != nil {
			t.Fatal(err)
		}
		if n, enabled := l.Len(); n != i+1 || enabled != c.enabled {
			t.Errorf("%d handled: %d of %d match, want %d", c.handled, enabled, n, c.enabled)
		}
	}
}

// A match costs no allocation once the list has had as many receives.
func TestTagListAllocates(t *testing.T) {
	s := NewSRQ(4, 1, nil)
	l := NewTagList(s, 8, 1, func(*ib.WC, bool) bool { return true })
	wr := ib.TagWR{SGList: make([]ib.SGE, 1), Flags: ib.TagSignaled}
	var w RecvWQE
	if n := testing.AllocsPerRun(100, func() {
		if l.Post(&wr) != nil {
			t.Fatal("full")
		}
		l.Take(&w, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
