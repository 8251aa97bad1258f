// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"verbena/internal/testkit/lockorder"
)

// lockRows returns the rows of locks in ARCHITECTURE.md, first to be taken first.
func lockRows(t *testing.T) (rows [][]string) {
	for _, line := range picture(t, "Locks") {
		if names := strings.Fields(line); len(names) > 0 {
			rows = append(rows, names)
		}
	}
	return rows
}

// checkLockOrder reports the differences between the code and the rows. A lock that is held while
// another one is taken stands in a row above that one's, or that one stands in none.
func checkLockOrder(rows [][]string, locks []string, edges []lockorder.Edge) (faults []string) {
	row, used := map[string]int{}, map[string]bool{}
	for i, names := range rows {
		for _, name := range names {
			n := 0
			for _, lock := range locks {
				if lock == name || strings.HasSuffix(lock, "/"+name) || strings.HasSuffix(lock, "."+name) {
					row[lock] = i
					n++
				}
			}
			if n != 1 {
				faults = append(faults, fmt.Sprintf("%d locks have the name %s", n, name))
			}
		}
	}
	for _, e := range edges {
		if strings.HasPrefix(e.Taken, "local ") || strings.HasPrefix(e.Held, "local ") {
			continue // nobody else has it
		}
		held, listed := row[e.Held]
		taken, below := row[e.Taken]
		used[e.Held] = true
		switch {
		case !listed:
			faults = append(faults, fmt.Sprintf("%s is in no row, and is held where %s is taken: %s", e.Held, e.Taken, strings.Join(e.Path, ", ")))
		case below && taken <= held:
			faults = append(faults, fmt.Sprintf("%s, of row %d, is held where %s, of row %d, is taken: %s", e.Held, held+1, e.Taken, taken+1, strings.Join(e.Path, ", ")))
		}
	}
	for lock := range row {
		if !used[lock] {
			faults = append(faults, lock+" is in a row, and nothing is taken while it is held")
		}
	}
	return faults
}

// TestLocksAreTakenInOrder holds the order that ARCHITECTURE.md promises.
func TestLocksAreTakenInOrder(t *testing.T) {
	p, err := lockorder.Load(".", "./verbs", "./rdmacm", "./rsocket", "./internal/transport/...")
	if err != nil {
		t.Fatal(err)
	}
	if locks, edges := p.Locks(), p.Edges(); len(locks) < 60 || len(edges) < 400 {
		t.Errorf("only %d locks and %d pairs were found", len(locks), len(edges))
	}
	for _, fault := range checkLockOrder(lockRows(t), p.Locks(), p.Edges()) {
		t.Error(fault)
	}
}

func TestLockOrderCanFail(t *testing.T) {
	locks := []string{"internal/a.A.mu", "internal/b.B.mu", "internal/c.C.mu"}
	edge := func(held, taken string) []lockorder.Edge { return []lockorder.Edge{{Held: held, Taken: taken}} }
	for _, c := range []struct {
		rows  string
		edges []lockorder.Edge
		want  int
	}{
		{"a.A.mu;b.B.mu", slices.Concat(edge(locks[0], locks[1]), edge(locks[1], locks[2])), 0},
		{"b.B.mu;a.A.mu", slices.Concat(edge(locks[0], locks[1]), edge(locks[1], locks[2])), 1}, // upwards
		{"a.A.mu b.B.mu", slices.Concat(edge(locks[0], locks[1]), edge(locks[1], locks[2])), 1}, // in one row
		{"a.A.mu", edge(locks[0], locks[0]), 1},                                                 // of two objects
		{"a.A.mu", edge(locks[1], locks[2]), 2},                                                 // B is not listed, A not needed
		{"x.A.mu", nil, 1},                                                                      // no such lock
	} {
		var rows [][]string
		for row := range strings.SplitSeq(c.rows, ";") {
			rows = append(rows, strings.Fields(row))
		}
		if faults := checkLockOrder(rows, locks, c.edges); len(faults) != c.want {
			t.Errorf("%q: %q, want %d faults", c.rows, faults, c.want)
		}
	}
}
