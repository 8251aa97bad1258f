// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"verbena/ib"
)

// CVE-2016-8636 (rxe mem_check_range): iova + length wrapped, so that requests
// far outside passed.
func TestCVE_2016_8636_RangeWraps(t *testing.T) {
	tab := newTestTable(1)
	buf := make([]byte, 4096)
	for _, base := range []uint64{0, 1, iova, math.MaxUint64 - 4095, math.MaxUint64 - 8192, 1 << 63} {
		r := mustRegister(t, tab, buf, base, fullAccess)
		for _, c := range []struct {
			va   uint64
			n    uint32
			want AccessError
		}{
			{base, 4096, ib.VendorNone},
			{base + 4095, 1, ib.VendorNone},
			{base + 4096, 0, ib.VendorNone},
			{base + 4096, 1, ib.VendorBounds},
			{base + 4095, 2, ib.VendorBounds},
			{base, 4097, ib.VendorBounds},
			{base, math.MaxUint32, ib.VendorBounds},
			{base - 1, 1, ib.VendorBounds},
			{base - 1, 2, ib.VendorBounds},
			{base - 4096, 8192, ib.VendorBounds},
			{base + 1<<63, 1, ib.VendorBounds},
			{base + 1, math.MaxUint32, ib.VendorBounds},
			{base - math.MaxUint32, math.MaxUint32, ib.VendorBounds},
			{base - math.MaxUint32 + 1, math.MaxUint32, ib.VendorBounds},
		} {
			wantRemote(t, tab, r.RKey(), c.va, c.n, ib.AccessRemoteRead, c.want)
			wantRemote(t, tab, r.RKey(), c.va, c.n, ib.AccessRemoteWrite, c.want)
			wantLocal(t, tab, ib.SGE{Addr: c.va, Length: c.n, LKey: r.LKey()}, 0, c.want)
		}
		wantRemote(t, tab, r.RKey(), base-8, 8, ib.AccessRemoteAtomic, ib.VendorBounds)
		wantRemote(t, tab, r.RKey(), base+4096, 8, ib.AccessRemoteAtomic, ib.VendorBounds)
	}
}

// CVE-2014-8159 (ib_umem_get): address + size of a registration overflowed, so
// that it covered memory that was never checked.
func TestCVE_2014_8159_RegistrationWraps(t *testing.T) {
	tab := newTestTable(2)
	r := mustRegister(t, tab, make([]byte, 8), iova, fullAccess)
	fast, err := tab.AllocFast(pd1, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		iova uint64
		n    int
		ok   bool
	}{
		{math.MaxUint64, 1, true},
		{math.MaxUint64, 2, false},
		{math.MaxUint64 - 15, 16, true},
		{math.MaxUint64 - 14, 16, false},
		{math.MaxUint64, 0, true},
	} {
		what := fmt.Sprintf("%d bytes at %#x", c.n, c.iova)
		buf := make([]byte, c.n)
		check := func(call string, err error) {
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, %s: %v", call, what, err)
			}
		}
		_, err := tab.Register(pd1, buf, c.iova, 0)
		check("Register", err)
		check("Reregister", tab.Reregister(r, ib.ReregTranslation, 0, buf, c.iova, 0))
		_, err = fast.Map([][]byte{buf[:c.n/2], buf[c.n/2:]}, c.iova)
		check("Map", err)
	}
	// The sum of the segments' lengths must not wrap either.
	if checkRange(2, math.MaxUint64) == nil || checkRange(math.MaxUint64, 1) != nil || checkRange(math.MaxUint64, 2) == nil {
		t.Error("checkRange")
	}
}

// CVE-2023-25775 (irdma): a registration of zero length switched the bounds
// check off, and peers could reach all memory.
func TestCVE_2023_25775_ZeroLengthPermitsNothing(t *testing.T) {
	tab := newTestTable(3)
	whole := mustRegister(t, tab, make([]byte, 64), iova, fullAccess)
	var keys []ib.RKey
	for _, buf := range [][]byte{nil, {}, make([]byte, 64)[:0]} {
		keys = append(keys, mustRegister(t, tab, buf, iova, fullAccess).RKey())
		keys = append(keys, mustRegister(t, tab, buf, 0, fullAccess|ib.AccessZeroBased).RKey())
	}
	// A fast registration of nothing is refused.
	fast, err := tab.AllocFast(pd1, 2)
	if err != nil {
		t.Fatal(err)
	}
	wantAccessError(t, "FastRegister before Map", tab.FastRegister(pd1, fast, fast.RKey(), fullAccess), ib.VendorBounds)
	if n, err := fast.Map([][]byte{nil, {}}, iova); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	wantAccessError(t, "FastRegister of empty segments", tab.FastRegister(pd1, fast, fast.RKey(), fullAccess), ib.VendorBounds)
	keys = append(keys, fast.RKey())
	// So are windows: type 1 is unbound by it, type 2 cannot be bound.
	w1, w2 := mustWindow(t, tab, ib.MWType1), mustWindow(t, tab, ib.MWType2)
	_, v := tab.Bind(w1, qp1, 0, whole, iova, 0, ib.AccessRemoteRead)
	wantAccessError(t, "bind type 1", v, ib.VendorNone)
	_, v = tab.Bind(w2, qp1, w2.RKey(), whole, iova, 0, ib.AccessRemoteRead)
	wantAccessError(t, "bind type 2", v, ib.VendorBound)
	keys = append(keys, w1.RKey(), w2.RKey())

	for _, key := range keys {
		for _, va := range []uint64{0, 1, iova - 1, iova, iova + 1, 1 << 63, math.MaxUint64} {
			for _, n := range []uint32{0, 1, 8, math.MaxUint32} {
				for _, need := range []ib.Access{0, ib.AccessRemoteRead, ib.AccessRemoteWrite, ib.AccessRemoteAtomic} {
					if s, v := tab.Remote(pd1, qp1, key, va, n, need); v == ib.VendorNone || s.Len() != 0 {
						t.Fatalf("key %#x opens %d bytes at %#x", key, n, va)
					}
				}
				if _, v := tab.Local(pd1, ib.SGE{Addr: va, Length: n, LKey: ib.LKey(key)}, 0); v == ib.VendorNone {
					t.Fatalf("key %#x opens %d bytes at %#x locally", key, n, va)
				}
			}
		}
	}
}

// FuzzBounds compares the check with arithmetic that cannot overflow.
func FuzzBounds(f *testing.F) {
	f.Add(uint64(iova), uint16(64), uint16(8), uint16(16), uint64(iova+8), uint32(8))
	f.Add(uint64(math.MaxUint64-63), uint16(64), uint16(0), uint16(64), uint64(math.MaxUint64), uint32(2))
	f.Add(uint64(0), uint16(0), uint16(0), uint16(0), uint64(0), uint32(0))
	f.Add(uint64(math.MaxUint64), uint16(1), uint16(0), uint16(1), uint64(math.MaxUint64), uint32(1))
	memory := words(1 << 16)
	f.Fuzz(func(t *testing.T, base uint64, length, winOff, winLen uint16, va uint64, n uint32) {
		tab := newTestTable(1)
		inside := func(va, n, base, length uint64) bool {
			b := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
			end := b(va).Add(b(va), b(n))
			limit := b(base).Add(b(base), b(length))
			return length > 0 && va >= base && end.Cmp(limit) <= 0
		}
		buf := memory[:length]
		r, err := tab.Register(pd1, buf, base, fullAccess)
		if fits := length == 0 || uint64(length)-1 <= math.MaxUint64-base; fits != (err == nil) {
			t.Fatalf("register %d at %#x: %v", length, base, err)
		}
		if err != nil {
			return
		}
		probe := func(what string, key ib.RKey, base, length uint64) {
			s, v := tab.Remote(pd1, qp1, key, va, n, ib.AccessRemoteWrite)
			if want := inside(va, uint64(n), base, length); want != (v == ib.VendorNone) {
				t.Fatalf("%s of %d at %#x: %d bytes at %#x: %v", what, length, base, n, va, v)
			}
			if v == ib.VendorNone {
				if s.Len() != int(n) {
					t.Fatalf("span of %d bytes, want %d", s.Len(), n)
				}
				s.Release()
			}
		}
		probe("region", r.RKey(), base, uint64(length))

		w, err := tab.AllocWindow(pd1, ib.MWType2)
		if err != nil {
			t.Fatal(err)
		}
		at := base + uint64(winOff) // may wrap: then it is outside
		key, v := tab.Bind(w, qp1, w.RKey(), r, at, uint64(winLen), ib.AccessRemoteWrite)
		if want := winLen > 0 && inside(at, uint64(winLen), base, uint64(length)); want != (v == ib.VendorNone) {
			t.Fatalf("bind %d at %#x in %d at %#x: %v", winLen, at, length, base, v)
		}
		if v == ib.VendorNone {
			probe("window", key, at, uint64(winLen))
		}
	})
}
