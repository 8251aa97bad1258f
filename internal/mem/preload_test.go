// SPDX-License-Identifier: BSD-2-Clause

package mem

import "testing"

// A hint reads nothing: neither an address that is not mapped nor the end of memory is a fault.
func TestPreloadReadsNothing(t *testing.T) {
	type object [40]uint64
	LinesOf(new(object)).Preload()
	LinesOfChan(make(chan struct{}, 1)).Preload()
	LinesOfChan[struct{}](nil).Preload()
	LinesOf(new(struct{})).Preload()
	LinesOf[object](nil).Preload()
	Lines{}.Preload()
	if n := testing.AllocsPerRun(10, func() { LinesOf(&held).Preload() }); n != 0 {
		t.Errorf("Preload allocates %v times", n)
	}
}

var held [100]byte
