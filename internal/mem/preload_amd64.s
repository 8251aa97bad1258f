// SPDX-License-Identifier: BSD-2-Clause

#include "textflag.h"

// func preload(p *byte, n uintptr)
TEXT ·preload(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	ADDQ SI, CX
	ANDQ $~63, SI

line:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, CX
	JCS  line
	RET
