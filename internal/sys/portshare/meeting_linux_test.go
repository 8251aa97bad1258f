// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// meetings has a file where each member might be met, as if all had been, and returns
// what counts those that are there.
func meetings(t *testing.T, dir string) func() int {
	t.Helper()
	lock, err := filepath.Glob(filepath.Join(dir, "slots-*"))
	if err != nil || len(lock) != 1 {
		t.Fatal(lock, err)
	}
	m := &member{paths: paths{lock: lock[0]}}
	for s := 1; s < Slots; s++ {
		if err := os.WriteFile(m.Meeting(s), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func() (there int) {
		for s := 1; s < Slots; s++ {
			if _, err := os.Stat(m.Meeting(s)); err == nil {
				there++
			}
		}
		return there
	}
}

// Where a member was met is gone soon after it, and what the last ones have left as
// soon as another begins.
func TestNothingIsLeftOfTheDead(t *testing.T) {
	n := newNetwork(t, 17)
	ps := startMany(t, n.dir, 2)
	keeper, others := keeperOf(t, ps)
	there := meetings(t, n.dir)
	others[0].kill()
	for end := time.Now().Add(patience); there() != Slots-2; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("of %d paths %d are there, want one less", Slots-1, there())
		}
	}
	keeper.kill()
	start(t, n.dir)
	if k := there(); k != 0 {
		t.Errorf("%d paths are there before anybody could be met", k)
	}
}
