// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"golang.org/x/net/bpf"

	"verbena/ib"
)

// Offset of the destination queue pair number in a UDP payload, as the low 24
// bits of a big-endian word. Spec: IBTA 9.2, BTH bytes 4–7: reserved, DestQP.
const destQPWord = 4

// Indices of a group's sockets: the keeper's, which has what is for no slot, and behind it
// one for each slot.
const (
	keeperIndex = 0
	firstIndex  = 1
)

// indexOf returns the index of a slot's socket.
func indexOf(slot int) int { return slot + firstIndex }

// steering returns the program that tells the index of a datagram's socket, in a group of
// n: by the slot of its destination. QP0, QP1, multicast, and what is for slots that have
// no socket yet, go to the keeper's. So does a datagram that is too short to have a
// destination: the load fails, which returns 0.
func steering(n int) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: destQPWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffffff},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ib.QPMulticast), SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(ib.QP1), SkipTrue: 3},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: slotShift},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: firstIndex},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(n), SkipTrue: 1},
		bpf.RetConstant{Val: keeperIndex},
		bpf.RetA{},
	}
}
