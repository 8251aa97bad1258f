// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"testing"
)

// Stream copies the same bytes as Copy, from and to any alignment, and none beside them.
func TestStream(t *testing.T) {
	src := make([]byte, 3*streamFrom)
	for i := range src {
		src[i] = byte(i*31 + i>>8)
	}
	dst := make([]byte, len(src)+2*streamLine)
	for _, n := range []int{0, 1, streamFrom - 1, streamFrom, streamFrom + 1, streamFrom + streamLine - 1, 2*streamFrom + 17} {
		for to := range streamLine + 1 {
			for _, from := range []int{0, 1, 8, 63} {
				clear(dst)
				if !Stream(dst[to:], src[from:from+n]) {
					t.Fatalf("%d bytes: a fault", n)
				}
				if !bytes.Equal(dst[to:to+n], src[from:from+n]) || bytes.ContainsFunc(dst[:to], notZero) || bytes.ContainsFunc(dst[to+n:], notZero) {
					t.Fatalf("%d bytes from %d to %d differ, or there is more", n, from, to)
				}
			}
		}
	}
}

func notZero(r rune) bool { return r != 0 }
