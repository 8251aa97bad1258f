// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"golang.org/x/net/bpf"

	"verbena/ib"
)

// Offset of the destination queue pair number in a UDP payload, as the low 24
// bits of a big-endian word. Spec: IBTA 9.2, BTH bytes 4–7: reserved, DestQP.
const destQPWord = 4

// keeperIndex is the index, in a group, of the socket that has the datagrams for no slot.
const keeperIndex = 0

// steeringTable tells the index of each slot's socket in a group: two in a word, the even
// slot's in the low half. A slot without a socket has the keeper's.
type steeringTable [Slots / 2]uint32

// maxParts bounds the parts of a group that have a socket of their own, so that any kernel accepts
// the program: maxProgramBytes of its test.
const maxParts = 200

// steeredPart tells the index of the socket of a part.
type steeredPart struct {
	share Share
	index int
}

func (t *steeringTable) set(slot, index int) {
	t[slot/2] |= uint32(index) << (slot % 2 * 16)
}

// steering returns the program that tells the index of a datagram's socket in a group, by
// the slot of its destination. Parts, in their order, have sockets of their own. The keeper's gets
// QP0, QP1, multicast, and datagrams for slots without a socket. It also gets a datagram that is
// too short to have a destination: the load fails, which returns 0. The largest program has 1,550
// instructions and runs about 20. Each part adds up to 5 instructions, and all parts 12 to those
// that run.
func (t *steeringTable) steering(parts []steeredPart) []bpf.Instruction {
	number := []bpf.Instruction{
		bpf.LoadAbsolute{Off: destQPWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffffff},
	}
	prog := append(number,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ib.QPMulticast), SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(ib.QP1), SkipTrue: 1},
		bpf.RetConstant{Val: keeperIndex},
	)
	if len(parts) > 0 {
		prog = append(prog, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: partShift})
		prog = append(append(prog, findPart(parts, 0)...), number...)
	}
	prog = append(prog,
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: SlotShift},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 4},
		bpf.TAX{}, // which half
	)
	prog = append(prog, number...)
	prog = append(prog,
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: SlotShift + 1}) // the word's index
	prog = append(prog, search(t[:], 0, len(t), 0)...)
	return append(prog,
		bpf.ALUOpX{Op: bpf.ALUOpShiftRight},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffff},
		bpf.RetA{},
	)
}

// findPart is the piece of the program that returns the index of the accumulator's share. If that
// is none of the parts it goes on behind as many instructions.
func findPart(parts []steeredPart, behind int) []bpf.Instruction {
	if len(parts) == 1 {
		return []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(parts[0].share), SkipTrue: 1},
			bpf.Jump{Skip: uint32(behind) + 1},
			bpf.RetConstant{Val: uint32(parts[0].index)},
		}
	}
	mid := len(parts) / 2
	high := findPart(parts[mid:], behind)
	low := findPart(parts[:mid], behind+len(high))
	return append(append(ifBelow(uint32(parts[mid].share), len(low)), low...), high...)
}
