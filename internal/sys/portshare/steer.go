// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"golang.org/x/net/bpf"

	"verbena/ib"
)

// Offset of the destination queue pair number in a UDP payload, as the low 24
// bits of a big-endian word. Spec: IBTA 9.2, BTH bytes 4–7: reserved, DestQP.
const destQPWord = 4

// steering returns the socket index of a datagram: SlotOf its destination. A
// datagram too short to have one makes the load fail, which returns 0.
var steering = []bpf.Instruction{
	bpf.LoadAbsolute{Off: destQPWord, Size: 4},
	bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffffff},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(ib.QPMulticast), SkipTrue: 1},
	bpf.RetConstant{Val: 0},
	bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: slotShift},
	bpf.RetA{},
}
