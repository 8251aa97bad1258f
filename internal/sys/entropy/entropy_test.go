// SPDX-License-Identifier: BSD-2-Clause

package entropy

import "testing"

func TestNumbersDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 1000 {
		n := Uint64()
		if seen[n] || n>>32 == 0 || n<<32 == 0 {
			t.Fatalf("%#x came twice, or is half of a number", n)
		}
		seen[n] = true
	}
}
