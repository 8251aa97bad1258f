// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"bytes"
	"testing"
)

// Place against a copy, at every alignment and length, with the bytes beside it.
func TestPlace(t *testing.T) {
	const size = 64
	src := make([]byte, size)
	for i := range src {
		src[i] = byte(i + 1)
	}
	for at := range size + 1 {
		for n := range size + 2 {
			w, want := owned(size), make([]byte, size)
			ok := at+n <= size
			if ok {
				copy(want[at:], src[:n])
			}
			if n > size {
				n = size
				ok = at == 0
				copy(want[at:], src[:min(n, size-at)])
				if !ok {
					clear(want)
				}
			}
			if w.Place(uint64(at), src[:n]) != ok || !bytes.Equal(w.mem, want) {
				t.Fatalf("%d bytes at %d: %x, want %x", n, at, w.mem, want)
			}
		}
	}
	if w := owned(size); w.Place(^uint64(0)-3, src[:8]) {
		t.Error("a place that wraps")
	}
}

// A reader sees whole words, wherever the bytes begin and end, and the last one after all others.
func TestPlaceIsSeenInOrder(t *testing.T) {
	const size, rounds = 64, 20000
	for _, from := range []uint64{0, 3} {
		w := owned(size)
		done := make(chan struct{})
		go func() {
			defer close(done)
			words := owned(size)
			for i := range uint64(rounds) {
				for at := uint64(0); at < size; at += 8 {
					words.Store8(at, i*(1<<32+1))
				}
				w.Place(from, words.mem[from:size-from])
			}
		}()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			last := uint32(w.Load8(size - 8)) // its lower half is written last in both
			for at := uint64(8); at < size-8; at += 8 {
				v := w.Load8(at)
				if uint32(v) != uint32(v>>32) {
					t.Fatalf("a word is torn: %x", v)
				}
				if uint32(v) < last {
					t.Fatalf("the last word is %d, and one before it %d", last, uint32(v))
				}
			}
		}
	}
}
