// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"testing"

	"verbena/ib"
)

// TestPutLocal: PutLocal is Local for writing, CopyIn and Release.
func TestPutLocal(t *testing.T) {
	tab := newTestTable(5)
	data := []byte("fourteen bytes")
	whole := make([]byte, 32)
	segs := [][]byte{make([]byte, 7), make([]byte, 1), make([]byte, 24)}
	for name, r := range map[string]*Region{"one piece": mustRegister(t, tab, whole, iova, fullAccess), "several": mustFast(t, tab, segs, iova, fullAccess)} {
		sge := ib.SGE{Addr: iova + 3, Length: uint32(len(data)) + 4, LKey: r.LKey()}
		if v, ok := tab.PutLocal(new(LastKey), pd1, sge, data); v != ib.VendorNone || !ok {
			t.Fatalf("%s: %v, %v", name, v, ok)
		}
		got := whole
		if name == "several" {
			got = bytes.Join(segs, nil)
		}
		want := make([]byte, 32)
		if copy(want[3:], data); !bytes.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		for what, change := range map[string]func(g *ib.SGE) PD{
			"key":    func(g *ib.SGE) PD { g.LKey ^= 1; return pd1 },
			"domain": func(g *ib.SGE) PD { return pd1 + 100 },
			"bounds": func(g *ib.SGE) PD { g.Addr += 12; return pd1 },
		} {
			g := sge
			domain := change(&g)
			_, wrong := tab.Local(domain, g, ib.AccessLocalWrite)
			if v, ok := tab.PutLocal(new(LastKey), domain, g, data); ok || v == ib.VendorNone || v != wrong {
				t.Errorf("%s, %s: %v, %v, and Local says %v", name, what, v, ok, wrong)
			}
		}
		if !r.Idle() {
			t.Errorf("%s: memory is held", name)
		}
	}
	read := mustRegister(t, tab, make([]byte, 8), iova, ib.AccessRemoteRead)
	if v, ok := tab.PutLocal(new(LastKey), pd1, ib.SGE{Addr: iova, Length: 8, LKey: read.LKey()}, data[:8]); ok || v != ib.VendorAccess {
		t.Errorf("memory to be read only: %v, %v", v, ok)
	}
}

// TestGetLocal: GetLocal is Local, CopyOut and Release.
func TestGetLocal(t *testing.T) {
	tab := newTestTable(6)
	whole := []byte("the quick brown fox jumps over")
	segs := [][]byte{whole[:7:7], whole[7:8:8], whole[8:]}
	for name, r := range map[string]*Region{"one piece": mustRegister(t, tab, whole, iova, fullAccess), "several": mustFast(t, tab, segs, iova, fullAccess)} {
		sge := ib.SGE{Addr: iova + 4, Length: 11, LKey: r.LKey()}
		var last LastKey
		for range 2 {
			got := make([]byte, 11)
			if v, ok := tab.GetLocal(&last, pd1, sge, got); v != ib.VendorNone || !ok || string(got) != "quick brown" {
				t.Errorf("%s: %v, %v, %q", name, v, ok, got)
			}
		}
		sge.Addr += 20
		if v, ok := tab.GetLocal(&last, pd1, sge, make([]byte, 11)); ok || v != ib.VendorBounds {
			t.Errorf("%s, beyond it: %v, %v", name, v, ok)
		}
		if !r.Idle() {
			t.Errorf("%s: memory is held", name)
		}
	}
}

// TestLastKeyRemembersNoRights: a key that a LastKey has seen opens nothing once it is revoked, and
// each look-up makes all checks.
func TestLastKeyRemembersNoRights(t *testing.T) {
	tab := newTestTable(7)
	var last LastKey
	put := func(key ib.LKey, pd PD) AccessError {
		v, _ := tab.PutLocal(&last, pd, ib.SGE{Addr: iova, Length: 8, LKey: key}, make([]byte, 8))
		return v
	}
	get := func(key ib.LKey, pd PD) AccessError {
		v, _ := tab.GetLocal(&last, pd, ib.SGE{Addr: iova, Length: 8, LKey: key}, make([]byte, 8))
		return v
	}
	if v := put(ib.LKey(0xffffff00), pd1); v != ib.VendorKey {
		t.Errorf("a key that was never given out: %v", v)
	}
	r := mustFast(t, tab, [][]byte{make([]byte, 64)}, iova, fullAccess)
	for step, want := range []AccessError{ib.VendorNone, ib.VendorPD, ib.VendorNone} {
		pd := pd1 + PD(step%2)*100
		wantAccessError(t, "put", put(r.LKey(), pd), want)
		wantAccessError(t, "get", get(r.LKey(), pd), want)
	}
	old := r.LKey()
	if v := tab.Invalidate(pd1, qp1, r.RKey(), false); v != ib.VendorNone {
		t.Fatal(v)
	}
	wantAccessError(t, "put after the invalidation", put(old, pd1), ib.VendorKey)
	wantAccessError(t, "get after the invalidation", get(old, pd1), ib.VendorKey)

	other := mustRegister(t, tab, make([]byte, 64), iova, fullAccess)
	wantAccessError(t, "another key", put(other.LKey(), pd1), ib.VendorNone)
	wantAccessError(t, "and the one before", put(old, pd1), ib.VendorKey)
	wantAccessError(t, "another key", put(other.LKey(), pd1), ib.VendorNone)
	if err := tab.Deregister(other); err != nil {
		t.Fatal(err)
	}
	wantAccessError(t, "put after Deregister", put(other.LKey(), pd1), ib.VendorKey)
	wantAccessError(t, "get after Deregister", get(other.LKey(), pd1), ib.VendorKey)
}
