// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync"
	"testing"

	"verbena/internal/mem"
)

// Objects may be added while another thread preloads; those beyond the bound are left out.
func TestNear(t *testing.T) {
	var c Near
	c.PreloadList()
	c.Preload()
	objects := [maxNear + 3][100]byte{}
	var adding sync.WaitGroup
	for i := range objects {
		adding.Go(func() { c.Beside(mem.LinesOf(&objects[i])) })
	}
	for range 100 {
		c.PreloadList()
		c.Preload()
	}
	adding.Wait()
	list := c.list.Load()
	if list.n != maxNear {
		t.Fatalf("%d objects, want %d", list.n, maxNear)
	}
	seen := map[mem.Lines]bool{}
	for _, l := range list.lines {
		seen[l] = true
	}
	if len(seen) != maxNear {
		t.Errorf("%d different objects, want %d: one was lost", len(seen), maxNear)
	}
	if n := testing.AllocsPerRun(100, func() { c.PreloadList(); c.Preload() }); n != 0 {
		t.Errorf("preloading allocates %v times", n)
	}
}
