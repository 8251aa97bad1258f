// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"testing"

	"golang.org/x/net/bpf"

	"verbena/ib"
)

// What is for a slot goes to its socket if there is one; all else is the keeper's.
func TestSteeringIsSlotOf(t *testing.T) {
	for _, n := range []int{1, 16, Slots / 2, Slots + 1} {
		vm, err := bpf.NewVM(steering(n))
		if err != nil {
			t.Fatal(err)
		}
		run := func(b []byte) int {
			t.Helper()
			n, err := vm.Run(b)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for slot := range Slots {
			for _, low := range []ib.QPN{0, 1, 2, 1<<(slotShift-1) + 5, 1<<slotShift - 2, 1<<slotShift - 1} {
				q := ib.QPN(slot)<<slotShift | low
				want := indexOf(slot)
				if q == ib.QPMulticast || q <= ib.QP1 || want >= n {
					want = keeperIndex
				}
				b := datagramBytes(q)
				b[4] = 0xff // reserved byte beside the number
				if got := run(b); got != want || SlotOf(q) != slot {
					t.Errorf("of %d, %v is steered to %d, SlotOf %d, want %d", n, q, got, SlotOf(q), want)
				}
			}
		}
		for size := range 8 {
			if got := run(datagramBytes(0xfc0000)[:size]); got != keeperIndex {
				t.Errorf("datagram of %d bytes is steered to %d", size, got)
			}
		}
	}
}

// datagramBytes is a BTH with a destination.
func datagramBytes(q ib.QPN) []byte {
	return []byte{0, 0, 0, 0, 0, byte(q >> 16), byte(q >> 8), byte(q), 0, 0, 0, 0}
}
