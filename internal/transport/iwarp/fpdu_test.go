// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "testing"

// A foreign peer gets FPDUs that fit a TCP segment, and one like us long ones.
func TestLongestFPDU(t *testing.T) {
	const ethernet, loopback = 1448, 65483
	for _, c := range []struct {
		mss        int
		extensions bool
		want       int
	}{
		{ethernet, false, ethernet},
		{ethernet, true, softwareFPDU},
		{loopback, false, loopback},
		{loopback, true, loopback},
	} {
		if got := longestFPDU(c.mss, c.extensions); got != c.want {
			t.Errorf("segments of %d bytes, extensions %t: %d, want %d", c.mss, c.extensions, got,
				c.want)
		}
	}
}
