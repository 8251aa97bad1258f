// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The members' directories and wills are gone soon after them, and so are the keeper and its files.
// If the keeper was killed before the last members, the next one to begin removes their files.
func TestNothingIsLeftOfTheDead(t *testing.T) {
	n := newNetwork(t, 17)
	leave := func(ps ...*process) {
		for _, p := range ps {
			p.must("", "socket %v", n.a)
			p.must("", "will 1 %v %v will", n.a, n.sender.LocalAddr())
			paths, err := openDir(n.dir)
			if err == nil {
				err = errors.Join(os.WriteFile(paths.meeting(p.slot), nil, 0o600), os.WriteFile(paths.stats(p.slot), nil, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ps := startMany(t, n.dir, 2)
	leave(ps...)
	keeper := n.keeper(t)
	ps[0].kill()
	ps[1].kill()
	awaitEmpty(t, n.dir)
	for slices.Contains(keepers(t, n.dir), keeper) {
		awaitEmpty(t, n.dir) // it is about to end
	}

	ps = startMany(t, n.dir, 2)
	leave(ps...)
	for _, p := range ps {
		p.stop()
	}
	n.killKeeper(t, nil)
	ps[0].kill()
	ps[1].kill()
	if list, _ := filepath.Glob(filepath.Join(n.dir, "*")); len(list) < 4 {
		t.Fatalf("the dead have left no more than %v", list)
	}
	start(t, n.dir).must("", "close")
	awaitEmpty(t, n.dir)
}
