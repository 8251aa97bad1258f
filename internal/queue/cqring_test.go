// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"testing"
	"unsafe"

	"verbena/ib"
)

// C polls rings by itself: what it knows of the layout, in
// cabi/include/engine.h, must stay true.
func TestRingIsLaidOutAsInC(t *testing.T) {
	var r Ring
	var wc ib.WC
	for _, f := range []struct {
		what      string
		got, want uintptr
	}{
		{"head", unsafe.Offsetof(r.head), 0}, {"tail", unsafe.Offsetof(r.tail), 64}, {"overrun", unsafe.Offsetof(r.overrun), 72},
		{"mask", unsafe.Offsetof(r.mask), 128}, {"slots", unsafe.Offsetof(r.base), 136}, {"vb_cq_ring", unsafe.Sizeof(r), 192},
		{"wr_id", unsafe.Offsetof(wc.WRID), 0}, {"status", unsafe.Offsetof(wc.Status), 8}, {"opcode", unsafe.Offsetof(wc.Opcode), 9},
		{"flags", unsafe.Offsetof(wc.Flags), 10}, {"vendor_err", unsafe.Offsetof(wc.VendorErr), 12}, {"byte_len", unsafe.Offsetof(wc.ByteLen), 16},
		{"imm_data", unsafe.Offsetof(wc.ImmData), 20}, {"invalidated_rkey", unsafe.Offsetof(wc.InvalidatedRKey), 24},
		{"qp_num", unsafe.Offsetof(wc.QPN), 28}, {"src_qp", unsafe.Offsetof(wc.SrcQP), 32}, {"pkey_index", unsafe.Offsetof(wc.PKeyIndex), 36},
		{"slid", unsafe.Offsetof(wc.SLID), 38}, {"sl", unsafe.Offsetof(wc.SL), 40}, {"vb_wc", unsafe.Sizeof(wc), 48},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, C looks at %d", f.what, f.got, f.want)
		}
	}
}

// poller is who owns a ring and polls it by itself, as C does.
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

func TestRingOfAnother(t *testing.T) {
	p := poller{slots: make([]ib.WC, 4)}
	q, err := NewCQIn(&p.r, p.slots, 3)
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
	if err := q.ResizeIn(8, make([]ib.WC, 6)); !errors.Is(err, ErrInvalid) {
		t.Errorf("ResizeIn to 6 slots: %v", err)
	}
	if err := q.ResizeIn(1, make([]ib.WC, 1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("ResizeIn below what is held: %v", err)
	}
	larger := make([]ib.WC, 8)
	if err := q.ResizeIn(8, larger); err != nil {
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
