// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"fmt"
	"testing"

	"verbena/ib"
)

func TestNoAllocations(t *testing.T) {
	tab := newTestTable(1)
	buf := words(4096)
	r := mustRegister(t, tab, buf, iova, fullAccess)
	split := mustFast(t, tab, [][]byte{buf[:1000], buf[1000:]}, iova, fullAccess)
	w := mustWindow(t, tab, ib.MWType2)
	wkey, v := tab.Bind(w, qp1, w.RKey(), r, iova, 4096, ib.AccessRemoteWrite)
	wantAccessError(t, "bind", v, ib.VendorNone)
	payload := make([]byte, 1024)
	iov := make([][]byte, 0, 4)
	check := func(what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	for what, key := range map[string]ib.RKey{"region": r.RKey(), "pieces": split.RKey(), "window": wkey} {
		check("write to "+what, func() {
			s, _ := tab.Remote(pd1, qp1, key, iova+500, 1024, ib.AccessRemoteWrite)
			s.CopyIn(0, payload)
			s.CopyOut(0, payload)
			s.StreamOut(0, payload)
			iov = s.AppendSlices(iov[:0], 0, 1024)
			s.Release()
		})
	}
	check("gather", func() {
		s, _ := tab.Local(pd1, ib.SGE{Addr: iova, Length: 64, LKey: r.LKey()}, 0)
		s.Release()
	})
	check("atomic", func() {
		s, _ := tab.Remote(pd1, qp1, r.RKey(), iova, 8, ib.AccessRemoteAtomic)
		s.FetchAdd(1)
		s.CompareSwap(0, 1)
		s.Store8(2)
		s.Release()
	})
	check("refusal", func() { tab.Remote(pd1, qp1, r.RKey()^1, iova, 8, 0) })

	// REG_MR and LOCAL_INV are work requests too. Map prepares memory of its own.
	const runs = 100
	fast := make([]*Region, runs+1)
	for i := range fast {
		fast[i] = mustFast(t, tab, [][]byte{buf}, iova, fullAccess)
		wantAccessError(t, "invalidate", tab.Invalidate(pd1, qp1, fast[i].RKey(), false), ib.VendorNone)
		if _, err := fast[i].Map([][]byte{buf}, iova); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	if n := testing.AllocsPerRun(runs, func() {
		tab.FastRegister(pd1, fast[i], fast[i].RKey(), fullAccess)
		tab.Invalidate(pd1, qp1, fast[i].RKey(), false)
		i++
	}); n != 0 {
		t.Errorf("REG_MR and LOCAL_INV: %v allocations", n)
	}
}

func BenchmarkRemote(b *testing.B) {
	for _, regions := range []int{1, 10000} {
		b.Run(fmt.Sprintf("regions=%d", regions), func(b *testing.B) {
			tab := newTestTable(1)
			keys := make([]ib.RKey, regions)
			buf := words(4096)
			for i := range keys {
				keys[i] = mustRegister(b, tab, buf, iova, fullAccess).RKey()
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s, _ := tab.Remote(pd1, qp1, keys[i], iova+64, 1024, ib.AccessRemoteWrite)
				s.Release()
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}

func BenchmarkLocal(b *testing.B) {
	tab := newTestTable(1)
	r := mustRegister(b, tab, words(4096), iova, fullAccess)
	sge := ib.SGE{Addr: iova, Length: 1024, LKey: r.LKey()}
	b.ReportAllocs()
	for b.Loop() {
		s, _ := tab.Local(pd1, sge, 0)
		s.Release()
	}
}

func BenchmarkShort(b *testing.B) {
	tab := newTestTable(1)
	r := mustRegister(b, tab, words(4096), iova, fullAccess)
	sge := ib.SGE{Addr: iova, Length: 8, LKey: r.LKey()}
	var last LastKey
	data := make([]byte, 8)
	for name, f := range map[string]func(*LastKey, PD, ib.SGE, []byte) (AccessError, bool){
		"put": tab.PutLocal, "get": tab.GetLocal,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(&last, pd1, sge, data)
			}
		})
	}
}

func BenchmarkRegister(b *testing.B) {
	tab := newTestTable(1)
	buf := words(4096)
	b.ReportAllocs()
	for b.Loop() {
		r := mustRegister(b, tab, buf, iova, fullAccess)
		if err := tab.Deregister(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFetchAdd(b *testing.B) {
	tab := newTestTable(1)
	r := mustRegister(b, tab, words(8), iova, fullAccess)
	for b.Loop() {
		s, _ := tab.Remote(pd1, qp1, r.RKey(), iova, 8, ib.AccessRemoteAtomic)
		s.FetchAdd(1)
		s.Release()
	}
}

// The cost of copying memory that may be gone: Copy beside a plain copy.
func BenchmarkCopy(b *testing.B) {
	dst, src := make([]byte, 64), make([]byte, 64)
	b.Run("guarded", func(b *testing.B) {
		for b.Loop() {
			Copy(dst, src)
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			copy(dst, src)
		}
	})
}
