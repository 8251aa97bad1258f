// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"

	"verbena/ib"
)

// maxProgramBytes is the size of a program that any kernel accepts for an ordinary user's
// socket: net.core.optmem_max, 20,480 bytes before Linux 6.7. An instruction there has 8, and
// to return is two.
const maxProgramBytes = 20480 - 100

// TestSteeringIsByTable runs the program for tables of any density: a datagram for a slot
// goes to its socket if there is one, and all others to the keeper's.
func TestSteeringIsByTable(t *testing.T) {
	for _, n := range []int{0, 1, 2, 15, 100, Slots / 2, Slots - 1, Slots} {
		var table steeringTable
		index := map[int]int{}
		for i, slot := range rand.New(rand.NewPCG(7, uint64(n))).Perm(Slots)[:n] {
			index[slot] = i + 1
			table.set(slot, i+1)
		}
		prog := table.steering(nil)
		if len(prog)*8 > maxProgramBytes {
			t.Errorf("with %d sockets the program has %d instructions", n, len(prog))
		}
		vm, err := bpf.NewVM(prog)
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
			for _, low := range []ib.QPN{0, 1, 2, 1<<(SlotShift-1) + 5, 1<<SlotShift - 2, 1<<SlotShift - 1} {
				q := ib.QPN(slot)<<SlotShift | low
				want := index[slot]
				if q == ib.QPMulticast || q <= ib.QP1 {
					want = keeperIndex
				}
				b := datagramBytes(q)
				b[4] = 0xff // reserved byte beside the number
				if got := run(b); got != want || SlotOf(q) != slot {
					t.Fatalf("of %d, %v is steered to %d, SlotOf %d, want %d", n, q, got, SlotOf(q), want)
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

// TestSteeringOfParts runs the program with as many parts as a group has, in the largest table: a
// datagram for one of them goes to its socket, and others go to that of their slot.
func TestSteeringOfParts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 50, maxParts} {
		rng := rand.New(rand.NewPCG(7, uint64(n)))
		var table steeringTable
		for slot, i := range rng.Perm(Slots) {
			table.set(slot, i+1)
		}
		index := map[Share]int{}
		for i, share := range rng.Perm(Slots * Parts)[:n] {
			index[Share(share)] = Slots + 1 + i
		}
		var parts []steeredPart
		for share := range Share(Slots * Parts) {
			if i, ok := index[share]; ok {
				parts = append(parts, steeredPart{share, i})
			}
		}
		bare, err := bpf.NewVM(table.steering(nil))
		if err != nil {
			t.Fatal(err)
		}
		prog := table.steering(parts)
		if len(prog)*8 > maxProgramBytes {
			t.Errorf("with %d parts the program has %d instructions", n, len(prog))
		}
		vm, err := bpf.NewVM(prog)
		if err != nil {
			t.Fatal(err)
		}
		for share := range Share(Slots * Parts) {
			for _, low := range []ib.QPN{0, 1, 2, 77, 1<<partShift - 2, 1<<partShift - 1} {
				q := ib.QPN(share)<<partShift | low
				b := datagramBytes(q)
				want, _ := bare.Run(b)
				if i, ok := index[share]; ok && q > ib.QP1 && q != ib.QPMulticast {
					want = i
				}
				got, err := vm.Run(b)
				if err != nil || got != want || ShareOf(q) != share || share.slot() != SlotOf(q) {
					t.Fatalf("of %d, %v is steered to %d, %v; want %d", n, q, got, err, want)
				}
			}
		}
		for size := range 8 {
			if got, _ := vm.Run(datagramBytes(0xfc0000)[:size]); got != keeperIndex {
				t.Errorf("datagram of %d bytes is steered to %d", size, got)
			}
		}
	}
}
