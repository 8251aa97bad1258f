// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"golang.org/x/net/bpf"

	"verbena/ib"
)

// Numbers is a set of queue pair numbers, by which the kernel drops datagrams for nobody. It is
// coarse: two numbers with the same low bits are one. The zero value is empty.
type Numbers [1 << numberBits / 32]uint32

// numberBits is the number of low bits that the set keeps of each queue pair number. With a
// hundred queue pairs one in twenty datagrams for nobody gets through. The program has at most
// 202 instructions and runs some twenty of them.
const numberBits = 11

// Add puts a number into the set.
func (n *Numbers) Add(q ib.QPN) { n[q>>5&(1<<(numberBits-5)-1)] |= 1 << (q & 31) }

// Has reports whether a number, or one that is the same to the set, is in it.
func (n *Numbers) Has(q ib.QPN) bool { return n[q>>5&(1<<(numberBits-5)-1)]>>(q&31)&1 != 0 }

// A filter of a socket, unlike steering, sees a datagram from its UDP header on. It returns how
// much of it is kept: all or nothing. It sees the first datagram of a burst that the kernel joined.
const (
	udpHeaderBytes = 8
	keepAll        = 1<<32 - 1
	keepNothing    = 0
)

// filter returns the program that drops datagrams for none of the numbers, and those too short to
// have one. It finds the set's word by halving, as classic programs cannot index.
func (n *Numbers) filter() []bpf.Instruction {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: udpHeaderBytes + destQPWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 31},
		bpf.TAX{}, // which bit
		bpf.LoadAbsolute{Off: udpHeaderBytes + destQPWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 5},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(len(n) - 1)}, // of which word
	}
	prog = append(prog, search(n[:], 0, len(n), 0)...)
	return append(prog,
		bpf.ALUOpX{Op: bpf.ALUOpShiftRight},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 1, SkipTrue: 1},
		bpf.RetConstant{Val: keepNothing},
		bpf.RetConstant{Val: keepAll},
	)
}

// search is the part of the program that loads a word of those from lo to hi and goes on behind as
// many instructions. The accumulator has the word's index.
func search(words []uint32, lo, hi, behind int) []bpf.Instruction {
	same := true
	for _, w := range words[lo:hi] {
		same = same && w == words[lo]
	}
	if same {
		return []bpf.Instruction{
			bpf.LoadConstant{Dst: bpf.RegA, Val: words[lo]},
			bpf.Jump{Skip: uint32(behind)},
		}
	}
	mid := (lo + hi) / 2
	high := search(words, mid, hi, behind)
	low := search(words, lo, mid, behind+len(high))
	return append(append(ifBelow(uint32(mid), len(low)), low...), high...)
}

// ifBelow has the next instructions, so many, run only if the accumulator is less than a limit.
func ifBelow(limit uint32, instructions int) []bpf.Instruction {
	if instructions > 255 { // a condition jumps no farther
		return []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: limit, SkipTrue: 1},
			bpf.Jump{Skip: uint32(instructions)},
		}
	}
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: limit, SkipFalse: uint8(instructions)},
	}
}

// nothing drops everything: the filter of a socket that nobody reads.
var nothing = []bpf.Instruction{bpf.RetConstant{Val: keepNothing}}

// management drops datagrams to slot 0 that are no management datagrams by MADRules. Datagrams of a
// burst are of one length.
func management(o *MADRules) []bpf.Instruction {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: udpHeaderBytes + destQPWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffffff},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(ib.QP1), SkipTrue: 1},
		bpf.RetConstant{Val: keepNothing},
	}
	if o.MADBytes != 0 {
		prog = append(prog,
			bpf.LoadExtension{Num: bpf.ExtLen},
			bpf.ALUOpConstant{Op: bpf.ALUOpSub, Val: udpHeaderBytes},
			bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(o.MADBytes)},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			bpf.RetConstant{Val: keepNothing},
		)
	}
	for _, w := range o.MADWords {
		prog = append(prog,
			bpf.LoadAbsolute{Off: udpHeaderBytes + uint32(w.At), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: w.Mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: w.Value, SkipTrue: 1},
			bpf.RetConstant{Val: keepNothing},
		)
	}
	return append(prog, bpf.RetConstant{Val: keepAll})
}
