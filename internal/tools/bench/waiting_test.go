// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"slices"
	"testing"
)

func TestCoreList(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-1": {0, 1}, "2,4-6": {2, 4, 5, 6}} {
		got, err := coreList(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "x", "1-"} {
		if got, err := coreList(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}
