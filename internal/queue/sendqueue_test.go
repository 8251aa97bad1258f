// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"verbena/ib"
	"verbena/internal/mem"
)

// TestIdleQueuePairIsSmall holds the sizes that 10,000 queue pairs multiply.
func TestIdleQueuePairIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(SendWQE{}); n > 192 {
		t.Errorf("SendWQE has %d bytes, at most 192 are planned", n)
	}
	const depth, sges, most = 16, 4, 6 << 10
	n := unsafe.Sizeof(SendQueue{}) + unsafe.Sizeof(RecvQueue{}) +
		depth*(unsafe.Sizeof(SendWQE{})+unsafe.Sizeof(RecvWQE{})+2*sges*unsafe.Sizeof(ib.SGE{}))
	if n > most {
		t.Errorf("%d send and receive requests with %d elements take %d bytes, at most %d are planned", depth, sges, n, most)
	}
	if q := NewSendQueue(depth, sges, 64); q.wqes != nil || q.sges != nil || q.inline != nil {
		t.Error("a send queue has its ring before anything was posted")
	}
	if q := NewRecvQueue(depth, sges); q.wqes != nil || q.sges != nil {
		t.Error("a receive queue has its ring before anything was posted")
	}
}

// TestSendQueueModel compares the ring with a slice.
func TestSendQueueModel(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 16, 17} {
		rng := rand.New(rand.NewPCG(uint64(depth), 1))
		q := NewSendQueue(depth, 3, 8)
		type posted struct {
			wrid   uint64
			sges   int
			inline string
		}
		var want []posted
		var popped, wrid uint64
		for range 5000 {
			switch rng.IntN(3) {
			case 0, 1:
				w, ok := q.Reserve()
				if ok != (len(want) < depth) {
					t.Fatalf("Reserve with %d of %d: %v", len(want), depth, ok)
				}
				if !ok {
					break
				}
				if w.WRID != 0 || w.Window != nil || len(w.SGE) != 0 || cap(w.SGE) != 3 || len(w.Inline) != 0 || cap(w.Inline) != 8 {
					t.Fatalf("slot not zero: %+v", w)
				}
				wrid++
				p := posted{wrid: wrid, sges: rng.IntN(4), inline: "abcdefgh"[:rng.IntN(9)]}
				w.WRID, w.Window = wrid, new(mem.Window)
				for i := range p.sges {
					w.SGE = append(w.SGE, ib.SGE{Addr: wrid, Length: uint32(i)})
				}
				w.Inline = append(w.Inline, p.inline...)
				if rng.IntN(5) == 0 {
					break // given up: the next Reserve starts over
				}
				q.Commit()
				want = append(want, p)
			case 2:
				if len(want) > 0 {
					old := q.At(0)
					q.PopFront()
					if old.Window != nil {
						t.Fatal("a popped slot keeps its window alive")
					}
					popped++
					want = want[1:]
				}
			}
			if q.Len() != len(want) || q.Cap() != depth || q.Head() != popped || q.Tail() != popped+uint64(len(want)) {
				t.Fatalf("Len %d Cap %d Head %d Tail %d; want %d, %d, %d", q.Len(), q.Cap(), q.Head(), q.Tail(), len(want), depth, popped)
			}
			for i, p := range want {
				w := q.At(i)
				if w != q.AtAbs(popped+uint64(i)) {
					t.Fatal("At and AtAbs differ")
				}
				if w.WRID != p.wrid || len(w.SGE) != p.sges || string(w.Inline) != p.inline {
					t.Fatalf("request %d is %+v, want %+v", i, w, p)
				}
				for j, e := range w.SGE {
					if e.Addr != p.wrid || e.Length != uint32(j) {
						t.Fatalf("request %d has element %+v", i, e)
					}
				}
			}
		}
	}
}

func TestSendQueueMisuse(t *testing.T) {
	q := NewSendQueue(2, 1, 0)
	wantPanic(t, "PopFront of an empty queue", q.PopFront)
	wantPanic(t, "At of an empty queue", func() { q.At(0) })
	for range 2 {
		q.Reserve()
		q.Commit()
	}
	wantPanic(t, "Commit to a full queue", q.Commit)
	wantPanic(t, "At beyond the end", func() { q.At(2) })
	wantPanic(t, "At before the start", func() { q.At(-1) })
	q.PopFront()
	wantPanic(t, "AtAbs of a popped one", func() { q.AtAbs(0) })
	wantPanic(t, "AtAbs of one to come", func() { q.AtAbs(2) })
	if _, ok := NewSendQueue(0, 0, 0).Reserve(); ok {
		t.Error("a queue of depth 0 took a request")
	}
	if q.MaxSGE() != 1 || q.MaxInline() != 0 {
		t.Errorf("MaxSGE %d MaxInline %d", q.MaxSGE(), q.MaxInline())
	}
}

func wantPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func TestTotalLength(t *testing.T) {
	many := make([]ib.SGE, ib.MaxSGE)
	for i := range many {
		many[i].Length = 1 << 31
	}
	for _, c := range []struct {
		sge []ib.SGE
		n   uint32
		ok  bool
	}{
		{nil, 0, true},
		{[]ib.SGE{{Length: 1}, {Length: 0}, {Length: 7}}, 8, true},
		{[]ib.SGE{{Length: 1 << 31}}, 1 << 31, true},
		{[]ib.SGE{{Length: 1<<31 - 1}, {Length: 1}}, 1 << 31, true},
		{[]ib.SGE{{Length: 1 << 31}, {Length: 1}}, 0, false},
		{[]ib.SGE{{Length: 1 << 31}, {Length: 1 << 31}, {Length: 5}}, 0, false}, // 5 in 32 bits
		{many, 0, false},
	} {
		if n, ok := TotalLength(c.sge); ok != c.ok || ok && n != c.n {
			t.Errorf("%d elements: %d, %v, want %d, %v", len(c.sge), n, ok, c.n, c.ok)
		}
	}
}
