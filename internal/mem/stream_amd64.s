// SPDX-License-Identifier: BSD-2-Clause

#include "textflag.h"

// func stream(dst, src *byte, n uintptr)
//
// MOVNTO is MOVNTDQ: four of them fill a line, which leaves for memory as a whole.
// SFENCE puts the lines before any store that comes after.
TEXT ·stream(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

line:
	MOVOU  0(SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVNTO X0, 0(DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ   $64, SI
	ADDQ   $64, DI
	SUBQ   $64, CX
	JNZ    line
	SFENCE
	RET
