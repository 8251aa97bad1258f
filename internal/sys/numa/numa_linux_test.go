// SPDX-License-Identifier: BSD-2-Clause

package numa

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/testkit/pages"
)

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{"0": {0}, "0-3,8\n": {0, 1, 2, 3, 8}, "1,3-4": {1, 3, 4}, "\n": nil, "": nil, "2-1": nil} {
		if got := parseList(s); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

// node returns the last one that there is: with two of them, not that where all
// memory is to begin with.
func node(t *testing.T) int {
	b, err := os.ReadFile(nodes + "online")
	if err != nil {
		t.Skipf("this kernel has no NUMA nodes: boot one with CONFIG_NUMA to test it: %v", err)
	}
	list := parseList(string(b))
	n := list[len(list)-1]
	t.Logf("node %d of %d", n, len(list))
	return n
}

func TestPlace(t *testing.T) {
	n := node(t)
	b, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if err := Place(b, n); err != nil {
		t.Fatal(err)
	}
	b[1<<15] = 1
	if got, err := pages.Node(b[1<<15:]); err != nil || got != n {
		t.Errorf("memory of node %d is on node %d: %v", n, got, err)
	}
	if err := Place(b, 777); !errors.Is(err, ErrNode) {
		t.Errorf("memory of a node that there is not: %v", err)
	}
}

func TestRun(t *testing.T) {
	n := node(t)
	done := make(chan struct{})
	go func() { // the thread ends with the goroutine
		defer close(done)
		runtime.LockOSThread()
		if err := Run(n); err != nil {
			t.Error(err)
		}
		want, err := processors(n)
		var got unix.CPUSet
		if err2 := unix.SchedGetaffinity(0, &got); err != nil || err2 != nil || got != want {
			t.Errorf("%v %v; the thread runs on %v, want %v", err, err2, got, want)
		}
	}()
	<-done
	if err := Run(n, 777); !errors.Is(err, ErrNode) {
		t.Errorf("a node that there is not: %v", err)
	}
}
