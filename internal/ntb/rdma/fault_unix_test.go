// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package rdma

import (
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/pages"
)

// unmapped returns n bytes that are not mapped.
func unmapped(t *testing.T, n int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(b) })
	return b
}

// Memory that goes while it is registered fails the work request, at either
// end.
func TestMemoryThatIsGone(t *testing.T) {
	pages.WantProtected(t)
	p := newPair(t)
	x, y := p.connected(0x11)
	gone := unmapped(t, 8192)
	sick, err := x.table.Register(pd, gone, base, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := x.write(0, 8192, y, 0)
	w.SGE[0].LKey = sick.LKey()
	x.post(w)
	x.wantWC("source", 1, ib.WCLocProtErr)
	y.wantUntouched("source", 0, 8192)

	for i, read := range []bool{true, false} {
		x, y := p.connected(ib.QPN(0x12 + i))
		sick, err := y.table.Register(pd, gone, base, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		r, want := x.write(0, 8192, y, 0), ib.WCRemAccessErr
		if read {
			r, want = x.read(0, 8192, y, 0), ib.WCRemOpErr
		}
		r.RKey = sick.RKey()
		x.post(r)
		x.wantWC("target", 1, want)
		y.wantState("target", ib.QPErr)
	}
}
