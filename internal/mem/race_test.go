// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"verbena/ib"
)

// TestDeregisterWaitsForSpans: readers go on with a key while its region is taken away. Once
// Deregister has returned, the owner changes the memory without synchronisation. The race detector
// would see a late reader, and so would the marker.
func TestDeregisterWaitsForSpans(t *testing.T) {
	const rounds, readers, size = 400, 3, 16 << 10 // a read that takes a while
	tab := newTestTable(1)
	var key atomic.Uint32
	var opened atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range readers {
		wg.Go(func() {
			got := make([]byte, size)
			for {
				select {
				case <-stop:
					return
				default:
				}
				runtime.Gosched() // the owner must get its turn on few CPUs
				k := key.Load()
				s, v := tab.Remote(pd1, qp1, ib.RKey(k), iova, size, ib.AccessRemoteRead)
				if i == 0 {
					s.Release()
					s, v = tab.Local(pd1, ib.SGE{Addr: iova, Length: size, LKey: ib.LKey(k)}, 0)
				}
				if v != ib.VendorNone {
					continue
				}
				s.CopyOut(0, got)
				s.Release()
				opened.Add(1)
				if bytes.Count(got, []byte{0x11}) != size {
					t.Error("read memory that was given back")
					return
				}
			}
		})
	}
	given, back := bytes.Repeat([]byte{0x11}, size), bytes.Repeat([]byte{0xff}, size)
	for range rounds {
		buf := bytes.Clone(given)
		r := mustRegister(t, tab, buf, iova, ib.AccessRemoteRead)
		key.Store(uint32(r.RKey()))
		for was := opened.Load(); opened.Load() == was; {
			if t.Failed() {
				break
			}
			runtime.Gosched()
		}
		if err := tab.Deregister(r); err != nil {
			t.Error(err)
		}
		copy(buf, back) // free for other use now
	}
	close(stop)
	wg.Wait()
}

// TestLateLookUp is the same race at its narrowest: a look-up has loaded the
// entry and found it good, and the key is revoked before it enters the gate.
func TestLateLookUp(t *testing.T) {
	tab := newTestTable(6)
	r := mustRegister(t, tab, make([]byte, 8), iova, fullAccess)
	s := tab.slotOf(uint32(r.RKey()))
	g := s.entry.Load()
	if !s.hold(g) {
		t.Fatal("no hold on an entry in force")
	}
	r.gate.release()
	if err := tab.Reregister(r, ib.ReregAccess, 0, nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	if s.hold(g) || !r.Idle() {
		t.Error("a look-up entered with rights that were replaced")
	}
	g = s.entry.Load()
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	if s.hold(g) || !r.Idle() {
		t.Error("a look-up entered after Deregister")
	}
}

// TestDrain: Deregister and a re-registration of other memory return only
// after the last Release, however the span was opened.
func TestDrain(t *testing.T) {
	take := map[string]func(tab *Table, r *Region) error{
		"deregister": (*Table).Deregister,
		"reregister": func(tab *Table, r *Region) error {
			return tab.Reregister(r, ib.ReregTranslation, 0, make([]byte, 8), 0, 0)
		},
	}
	for name, take := range take {
		tab := newTestTable(2)
		r := mustRegister(t, tab, make([]byte, 64), iova, fullAccess)
		w := mustWindow(t, tab, ib.MWType1)
		key, v := tab.Bind(w, qp1, 0, r, iova, 64, ib.AccessRemoteRead)
		wantAccessError(t, "bind", v, ib.VendorNone)
		byRegion, _ := tab.Local(pd1, ib.SGE{Addr: iova, Length: 1, LKey: r.LKey()}, 0)
		byWindow, _ := tab.Remote(pd1, qp1, key, iova, 1, ib.AccessRemoteRead)
		byWindow.Hold()
		if err := tab.FreeWindow(w); err != nil {
			t.Fatal(err)
		}

		var released atomic.Int32
		done := make(chan int32)
		old := r.LKey()
		go func() {
			if err := take(tab, r); err != nil {
				t.Error(err)
			}
			done <- released.Load()
		}()
		for { // the key goes first, while the spans are still held
			s, v := tab.Local(pd1, ib.SGE{Addr: iova, Length: 1, LKey: old}, 0)
			if v == ib.VendorKey {
				break
			}
			s.Release()
		}
		for _, s := range []*Span{&byRegion, &byWindow, &byWindow} {
			released.Add(1)
			s.Release()
		}
		if n := <-done; n != 3 {
			t.Errorf("%s returned after %d of 3 releases", name, n)
		}
	}
}

// TestIdle: an invalidated key opens no more spans, and Idle reports when its spans are closed.
func TestIdle(t *testing.T) {
	tab := newTestTable(3)
	r := mustFast(t, tab, [][]byte{make([]byte, 8)}, iova, fullAccess)
	s, v := tab.Remote(pd1, qp1, r.RKey(), iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "open", v, ib.VendorNone)
	wantAccessError(t, "invalidate", tab.Invalidate(pd1, qp1, r.RKey(), false), ib.VendorNone)
	if r.Idle() {
		t.Error("idle with a span held")
	}
	s.Release()
	if !r.Idle() {
		t.Error("not idle without spans")
	}
}

// TestAtomicsAreAtomic: additions and swaps through spans lose none, also
// against the application's own sync/atomic.
func TestAtomicsAreAtomic(t *testing.T) {
	const workers, each = 4, 2000
	tab := newTestTable(4)
	buf := words(16)
	r := mustRegister(t, tab, buf, iova, fullAccess)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range each {
				s, _ := tab.Remote(pd1, qp1, r.RKey(), iova, 8, ib.AccessRemoteAtomic)
				s.FetchAdd(1)
				s.Release()
				if i == 0 { // the CPU
					atomic.AddUint64(word(buf), 1)
				}
				s, _ = tab.Remote(pd1, qp1, r.RKey(), iova+8, 8, ib.AccessRemoteAtomic)
				for v := uint64(0); ; {
					old, _ := s.CompareSwap(v, v+1)
					if old == v {
						break
					}
					v = old
				}
				s.Release()
			}
		})
	}
	wg.Wait()
	if got := binary.NativeEndian.Uint64(buf); got != (workers+1)*each {
		t.Errorf("%d additions arrived, want %d", got, (workers+1)*each)
	}
	if got := binary.NativeEndian.Uint64(buf[8:]); got != workers*each {
		t.Errorf("%d swaps arrived, want %d", got, workers*each)
	}
}

// TestConcurrentControl runs all calls against one table from several
// goroutines; the race detector and the gates' own assertions judge.
func TestConcurrentControl(t *testing.T) {
	const workers, steps = 3, 1500
	tab := newTestTable(5)
	var shared [8]atomic.Uint32 // keys that all try
	var wg sync.WaitGroup
	for seed := range uint64(workers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 5))
			buf := words(64)
			fast, err := tab.AllocFast(pd1, 2)
			if err != nil {
				t.Error(err)
				return
			}
			w, err := tab.AllocWindow(pd1, ib.MWType2)
			if err != nil {
				t.Error(err)
				return
			}
			plain, err := tab.Register(pd1, buf, iova, fullAccess)
			if err != nil {
				t.Error(err)
				return
			}
			for range steps {
				switch rng.IntN(8) {
				case 0:
					_, err = fast.Map([][]byte{buf[:32], buf[32:]}, iova)
				case 1:
					tab.FastRegister(pd1, fast, fast.RKey()&^0xff|ib.RKey(rng.Uint32()&0xff), fullAccess)
					shared[rng.IntN(8)].Store(uint32(fast.RKey()))
				case 2:
					tab.Invalidate(pd1, qp1, ib.RKey(shared[rng.IntN(8)].Load()), rng.IntN(2) == 0)
				case 3:
					tab.Bind(w, qp1, w.RKey()&^0xff|ib.RKey(rng.Uint32()&0xff), fast, iova+8, 40, ib.AccessRemoteAtomic)
					shared[rng.IntN(8)].Store(uint32(w.RKey()))
				case 4:
					err = tab.Reregister(plain, ib.ReregTranslation, 0, buf, iova, 0)
					shared[rng.IntN(8)].Store(uint32(plain.RKey()))
				default:
					s, v := tab.Remote(pd1, qp1, ib.RKey(shared[rng.IntN(8)].Load()), iova+16, 8, ib.AccessRemoteAtomic)
					if v == ib.VendorNone {
						s.FetchAdd(1)
						s.Release()
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := tab.FreeWindow(w); err != nil {
				t.Error(err)
			}
			for _, r := range []*Region{fast, plain} {
				if err := tab.Deregister(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestDeregisterWaitsForGuard is TestDeregisterWaitsForSpans of a table whose short copies are
// guarded by a lock, and hold no span.
func TestDeregisterWaitsForGuard(t *testing.T) {
	const rounds, readers, size = 400, 2, 16 << 10
	tab := newTestTable(1)
	var mu sync.Mutex
	tab.Guard(&mu)
	var key atomic.Uint32
	var read atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range readers {
		wg.Go(func() {
			got, last := make([]byte, size), LastKey{}
			for {
				select {
				case <-stop:
					return
				default:
				}
				runtime.Gosched()
				sge := ib.SGE{Addr: iova, Length: size, LKey: ib.LKey(key.Load())}
				mu.Lock()
				var v AccessError
				if i == 0 {
					v, _ = tab.GetLocal(&last, pd1, sge, got)
				} else {
					v, _ = tab.PutLocal(&last, pd1, sge, got[:1])
				}
				mu.Unlock()
				if v != ib.VendorNone {
					continue
				}
				read.Add(1)
				if i == 0 && bytes.Count(got[1:], []byte{0x11}) != size-1 {
					t.Error("read memory that was given back")
					return
				}
			}
		})
	}
	given, back := bytes.Repeat([]byte{0x11}, size), bytes.Repeat([]byte{0xff}, size)
	for range rounds {
		buf := bytes.Clone(given)
		r := mustRegister(t, tab, buf, iova, ib.AccessLocalWrite)
		key.Store(uint32(r.LKey()))
		for before := read.Load(); read.Load() == before && !t.Failed(); {
			runtime.Gosched()
		}
		if err := tab.Deregister(r); err != nil {
			t.Error(err)
		}
		copy(buf, back)
	}
	close(stop)
	wg.Wait()
}
