// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// memoryGoesWithItsContext registers memory on one of two contexts of a device, and
// closes that one with all that is still registered.
func memoryGoesWithItsContext(t *testing.T, device string) {
	stays, err := verbs.Open(device)
	check(t, err)
	defer stays.Close()
	c, err := verbs.Open(device)
	check(t, err)
	pd, err := c.AllocPD()
	check(t, err)
	late, err := pd.RegMR(make([]byte, 64), allAccess)
	check(t, err)
	window, err := pd.AllocMW(ib.MWType2)
	check(t, err)
	kept := func() weak.Pointer[[1 << 16]byte] {
		b := new([1 << 16]byte)
		_, err := pd.RegMR(b[:], allAccess)
		check(t, err)
		fast, err := pd.AllocMR(4)
		check(t, err)
		_, err = fast.Map([][]byte{b[:4096]}, 0)
		check(t, err)
		return weak.Make(b)
	}()
	check(t, c.Close())
	check(t, late.Dereg()) // it comes too late, which is no error
	check(t, window.Dealloc())
	c, pd, late, window = nil, nil, nil, nil
	for end := time.Now().Add(10 * time.Second); kept.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the device still holds memory of a context that is closed")
		}
	}
	pd, err = stays.AllocPD() // and the other goes on
	check(t, err)
	mr, err := pd.RegMR(make([]byte, 64), allAccess)
	check(t, err)
	check(t, mr.Dereg())
}

func TestMemoryGoesWithItsContext(t *testing.T) { memoryGoesWithItsContext(t, loopback.Device(t)) }
