// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/testkit/pages"
	wire "verbena/internal/wire/roce"
)

// A run from memory that has gone, or is in pieces, changes nothing.
func TestRunRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool
		list [][]byte
	}{
		{"gone", true, nil},
		{"in pieces", false, [][]byte{make([]byte, 1024), make([]byte, 1024)}},
	} {
		buf := pages.New(t, 1)
		tab, r := table(t, buf)
		if c.list != nil {
			var err error
			if r, err = fast(tab, c.list); err != nil {
				t.Fatal(err)
			}
		}
		s, v := tab.Local(1, ib.SGE{Length: 2048, LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		if c.gone {
			buf.Unmap(t, 0, 1)
		}
		b := NewBurst()
		if b.Run(burstPath, wire.BTH{Opcode: wire.RCSendMiddle}, s, 2) {
			t.Errorf("%s: a run", c.name)
		}
		s.Release()
		if b.Seal(); b.Len() != 0 || len(b.Iov()) != 0 || !r.Idle() {
			t.Errorf("%s: %d datagrams, %d pieces of memory", c.name, b.Len(), len(b.Iov()))
		}
	}
}

// fast returns a region in pieces.
func fast(tab *mem.Table, list [][]byte) (*mem.Region, error) {
	r, err := tab.AllocFast(1, len(list))
	if err != nil {
		return nil, err
	}
	if n, err := r.Map(list, 0); n != len(list) || err != nil {
		return nil, fmt.Errorf("%d pieces: %w", n, err)
	}
	if v := tab.FastRegister(1, r, r.RKey(), 0); v != ib.VendorNone {
		return nil, fmt.Errorf("%v", v)
	}
	return r, nil
}
