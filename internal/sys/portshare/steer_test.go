// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"testing"

	"golang.org/x/net/bpf"

	"verbena/ib"
)

func TestSteeringIsSlotOf(t *testing.T) {
	vm, err := bpf.NewVM(steering)
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
		for _, low := range []ib.QPN{0, 1, 2, 1<<17 + 5, 1<<slotShift - 2, 1<<slotShift - 1} {
			q := ib.QPN(slot)<<slotShift | low
			want := slot
			if q == ib.QPMulticast {
				want = 0
			}
			b := datagramBytes(q)
			b[4] = 0xff // reserved byte beside the number
			if got := run(b); got != want || SlotOf(q) != want {
				t.Errorf("%v is steered to %d, SlotOf %d, want %d", q, got, SlotOf(q), want)
			}
		}
	}
	for n := range 8 {
		if got := run(datagramBytes(0xfc0000)[:n]); got != 0 {
			t.Errorf("datagram of %d bytes is steered to %d, want 0", n, got)
		}
	}
}

// datagramBytes is a BTH with a destination.
func datagramBytes(q ib.QPN) []byte {
	return []byte{0, 0, 0, 0, 0, byte(q >> 16), byte(q >> 8), byte(q), 0, 0, 0, 0}
}
