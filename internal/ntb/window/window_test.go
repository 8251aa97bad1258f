// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"bytes"
	"testing"
)

// Every access against a window of 64 bytes, with places at the edges and
// those that wrap.
func TestBounds(t *testing.T) {
	const size = 64
	for _, at := range []uint64{0, 1, 4, 8, size - 8, size - 4, size - 1, size, size + 8, ^uint64(0), ^uint64(0) - 7, 1 << 63} {
		for _, n := range []uint64{0, 1, 4, 8, size - 1, size, size + 1} {
			w := owned(size)
			inside := at <= size && n <= size && at+n <= size
			if w.Contains(at, n) != inside {
				t.Errorf("Contains(%#x, %d)", at, n)
			}
			p := bytes.Repeat([]byte{7}, int(n))
			if w.CopyIn(at, p) != inside || w.CopyOut(at, p) != inside {
				t.Errorf("copy of %d at %#x", n, at)
			}
			b, ok := w.Bytes(at, n)
			if ok != inside || uint64(len(b)) != n && ok || uint64(cap(b)) > n {
				t.Errorf("Bytes(%#x, %d)", at, n)
			}
			w.Clear(at, n)
		}
		w := owned(size)
		if ok := at <= size-4 && at%4 == 0; w.Store4(at, 0x01020304) != ok || ok && w.Load4(at) != 0x01020304 || !ok && w.Load4(at) != 0 {
			t.Errorf("word of 4 at %#x", at)
		}
		if ok := at <= size-8 && at%8 == 0; w.Store8(at, 1<<60|5) != ok || ok && w.Load8(at) != 1<<60|5 || !ok && w.Load8(at) != 0 {
			t.Errorf("word of 8 at %#x", at)
		}
	}
}

// The words of the format are little-endian on any machine.
func TestWordsAreLittleEndian(t *testing.T) {
	w := owned(16)
	w.Store4(0, 0x04030201)
	w.Store8(8, 0x0807060504030201)
	if b, _ := w.Bytes(0, 16); !bytes.Equal(b, []byte{1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%x", b)
	}
}

func TestMisalignedMemoryIsRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("taken")
		}
	}()
	b := make([]byte, 16)
	New(b[1:])
}

// owned returns a window of n bytes over memory of its own. The Go runtime aligns
// whole words.
func owned(n int) *Window { return New(make([]byte, (n+7)&^7)[:n]) }
