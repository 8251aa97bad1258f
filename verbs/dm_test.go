// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// A peer writes device memory and reads it; its owner copies it out.
func TestDeviceMemory(t *testing.T) {
	a, b := rcPair(t, 1<<16)
	dm, err := b.ctx.AllocDM(1<<14, 16)
	check(t, err)
	_, err = b.ctx.AllocDM(int(b.ctx.Query().MaxDMSize)+1, 0)
	wantError(t, err, syscall.EINVAL, "length")
	_, err = b.ctx.AllocDM(1, 25) // more than the largest allocation
	wantError(t, err, syscall.EINVAL, "logAlign")
	wantError(t, dm.CopyTo(2, a.buf[:4]), syscall.EINVAL, "offset")
	wantError(t, dm.CopyFrom(a.buf[:8], 1<<14-4), syscall.EINVAL, "offset")
	_, err = b.pd.RegDMMR(dm, 0, 8, allAccess)
	wantError(t, err, syscall.EINVAL, "access")
	_, err = b.pd.RegDMMR(dm, 8, 1<<14, allAccess|ib.AccessZeroBased)
	wantError(t, err, syscall.EINVAL, "offset")
	_, err = a.pd.RegDMMR(dm, 0, 8, allAccess|ib.AccessZeroBased)
	wantError(t, err, syscall.EINVAL, "DM")

	mr, err := b.pd.RegDMMR(dm, 8, 1<<14-8, allAccess|ib.AccessZeroBased)
	check(t, err)
	wantError(t, dm.Free(), syscall.EBUSY, "DM")
	wantError(t, mr.Rereg(ib.ReregAccess, nil, nil, ib.AccessLocalWrite), syscall.EINVAL, "MR")
	pattern(a.buf, 3)
	wantStatus(t, a.write(1<<13, 0, mr.RKey()), ib.WCSuccess)
	got := make([]byte, 1<<13)
	check(t, dm.CopyFrom(got, 8))
	if !bytes.Equal(got, a.buf[:1<<13]) {
		t.Error("device memory lacks what the peer wrote")
	}
	check(t, dm.CopyTo(16, []byte("8 bytes.")))
	wc := a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: 8, RKey: mr.RKey()})
	wantStatus(t, wc.Status, ib.WCSuccess)
	if string(a.buf[:8]) != "8 bytes." {
		t.Errorf("read %q", a.buf[:8])
	}
	check(t, mr.Dereg())
	check(t, dm.Free())
	wantError(t, dm.Free(), syscall.EINVAL, "DM")
}

// nullRegion discards what a READ brings, and a WRITE from it brings zeros.
func nullRegion(t *testing.T, a, b *end) {
	t.Helper()
	null, err := a.pd.AllocNullMR()
	check(t, err)
	wantError(t, null.Rereg(ib.ReregAccess, nil, nil, allAccess), syscall.EINVAL, "MR")
	n := len(b.buf)
	sge := []ib.SGE{{Addr: 12345, Length: uint32(n), LKey: null.LKey()}}
	for range 2 { // what the first one read must not come back
		pattern(b.buf, 5)
		wc := a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: sge, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		wantStatus(t, wc.Status, ib.WCSuccess)
		wc = a.post(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: sge, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		wantStatus(t, wc.Status, ib.WCSuccess)
		wc = a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		wantStatus(t, wc.Status, ib.WCSuccess)
		if !bytes.Equal(a.buf[:n], make([]byte, n)) {
			t.Fatal("a WRITE from a null region brought other bytes than zeros")
		}
	}
	check(t, null.Dereg())
}

func TestNullRegion(t *testing.T) {
	onBothPaths(t, func(t *testing.T) {
		a, b := rcPair(t, 3<<20)
		nullRegion(t, a, b)
	})
}
