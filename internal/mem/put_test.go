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
		if v, ok := tab.PutLocal(pd1, sge, data); v != ib.VendorNone || !ok {
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
			if v, ok := tab.PutLocal(domain, g, data); ok || v == ib.VendorNone || v != wrong {
				t.Errorf("%s, %s: %v, %v, and Local says %v", name, what, v, ok, wrong)
			}
		}
		if !r.Idle() {
			t.Errorf("%s: memory is held", name)
		}
	}
	read := mustRegister(t, tab, make([]byte, 8), iova, ib.AccessRemoteRead)
	if v, ok := tab.PutLocal(pd1, ib.SGE{Addr: iova, Length: 8, LKey: read.LKey()}, data[:8]); ok || v != ib.VendorAccess {
		t.Errorf("memory to be read only: %v, %v", v, ok)
	}
}
