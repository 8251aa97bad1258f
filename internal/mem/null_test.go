// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"math"
	"testing"

	"verbena/ib"
)

// A null region has each element, also one that begins just before the end of all addresses.
func TestNullRegionHasEveryAddress(t *testing.T) {
	tab := newTestTable(1)
	r, err := tab.RegisterNull(pd1)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []uint64{0, 1, iova, 1 << 63, math.MaxUint64 - 7, math.MaxUint64} {
		for _, n := range []uint32{0, 1, 9, 1 << 20, math.MaxUint32} {
			sge := ib.SGE{Addr: addr, Length: n, LKey: r.LKey()}
			wantLocal(t, tab, sge, 0, ib.VendorNone)
			wantLocal(t, tab, sge, ib.AccessLocalWrite, ib.VendorNone)
		}
		var last LastKey
		got, ones := make([]byte, 64), bytes.Repeat([]byte{1}, 64)
		sge := ib.SGE{Addr: addr, Length: 64, LKey: r.LKey()}
		if v, ok := tab.PutLocal(&last, pd1, sge, ones); v != ib.VendorNone || !ok {
			t.Errorf("writing 64 bytes at %#x: %v, %v", addr, v, ok)
		}
		if s, _ := tab.Local(pd1, sge, ib.AccessLocalWrite); s.CopyInEach(ones, 16, 16, 4) != 4 {
			t.Errorf("64 bytes at %#x are not taken in pieces", addr)
		} else {
			s.Release()
		}
		copy(got, ones)
		if v, ok := tab.GetLocal(&last, pd1, sge, got); v != ib.VendorNone || !ok || !bytes.Equal(got, make([]byte, 64)) {
			t.Errorf("reading 64 bytes at %#x: %v, %v, %x", addr, v, ok, got)
		}
	}
	wantRemote(t, tab, ib.RKey(r.LKey()), math.MaxUint64, 1, ib.AccessRemoteRead, ib.VendorAccess)
	if err := tab.Deregister(r); err != nil {
		t.Error(err)
	}
}
