// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"testing"
	"unsafe"
)

// C looks at boards by itself: what it knows of the layout, in
// cabi/include/engine.h, must stay true.
func TestBoardIsLaidOutAsInC(t *testing.T) {
	var m boardMemory
	for _, f := range []struct {
		what      string
		got, want uintptr
	}{
		{"patient", unsafe.Offsetof(m.patient), 0}, {"seats", unsafe.Offsetof(m.seats), 4}, {"mask", unsafe.Offsetof(m.mask), 8},
		{"looks", unsafe.Offsetof(m.looks), 64}, {"at", unsafe.Offsetof(m.at), 128}, {"a seat", unsafe.Sizeof(m.at[0]), 16},
		{"next", unsafe.Offsetof(m.at[0].next), 8},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, C looks at %d", f.what, f.got, f.want)
		}
	}
}

// A nil board, which is what other systems have, shows nothing.
func TestNoBoard(t *testing.T) {
	var b *Board
	_, rx := NewPair()
	if b.Show(rx) || b.Patient() || b.Looks() != 0 || b.Memory() != nil {
		t.Error("nil shows something")
	}
	b.Hide(rx)
	b.Let(true)
	b.End()
}
