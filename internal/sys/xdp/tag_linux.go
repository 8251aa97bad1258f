// SPDX-License-Identifier: BSD-2-Clause

package xdp

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// xdpDeviceBound (BPF_F_XDP_DEV_BOUND_ONLY) has a program run by one driver, which it may ask.
const xdpDeviceBound = 1 << 6

// tagFunction is the kernel's function that tells of a tag which the driver has taken out of the
// frame. It returns 0 if there is one. Linux has it since 6.8.
const tagFunction = "bpf_xdp_metadata_rx_vlan_tag"

// tagAt is the offset from the top of the stack where it puts the tag: two words of 16 bits.
const tagAt = -32

// askForTag returns instructions that pass a frame which had a tag. It is nil where the kernel does
// not tell.
func askForTag() asm.Instructions {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil
	}
	var f *btf.Func
	if err := kernel.TypeByName(tagFunction, &f); err != nil {
		return nil
	}
	id, err := kernel.TypeID(f)
	if err != nil {
		return nil
	}
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, tagAt, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, tagAt),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, tagAt+4),
		asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call),
			Src: asm.PseudoKfuncCall, Constant: int64(id)},
		asm.JEq.Imm32(asm.R0, 0, "pass"),
	}
}
