// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A keeper that dies with a datagram in its hands. It may say that a program has
// disconnected, and no peer says that twice.
func TestDatagramIsNotLostWithItsKeeper(t *testing.T) {
	inBothPlaces(t, func(t *testing.T) {
		n := newNetwork(t, 35)
		ps := startMany(t, n.dir, 2) // the first is the keeper, if a member is
		ps[0].must("", "socket %v", n.a)
		ps[1].must("", "listen %s", deadly)
		ps[1].must("", "listen after")
		n.send(t, n.a, datagram(1, 0, deadly), datagram(1, 0, "after"))
		got := []string{ps[1].ask("mad"), ps[1].ask("mad")} // only the first may wait
		if slices.Sort(got); !slices.Equal(got, []string{"after", deadly}) {
			t.Fatalf("%q came", got)
		}
		if _, err := os.Stat(filepath.Join(n.dir, deadly)); err != nil {
			t.Error("no keeper died:", err)
		}
	})
}
