// SPDX-License-Identifier: BSD-2-Clause

// Package pingpong is "verbena pingpong": two sides send one message to and
// fro over RC, UC, UD or RC with a shared receive queue. It speaks to the
// programs ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and
// ibv_srq_pingpong of rdma-core, with their options and their output.
//
// The sides find each other by TCP. Each sends its address as 52 bytes of
// text, "LID:QPN:PSN:GID" in hexadecimal and a zero byte; the shared receive
// queue sends 256 of them, unused ones zero:
//
//	client                         server
//	address(es) ────────────────▶
//	                               connects its queue pairs
//	            ◀──────────────── address(es)
//	"done\0"    ────────────────▶
//	connects, sends the first message
//
// Queue pairs of iWARP are connected by the connection manager alone. There both
// sides are ours, and the exchange of addresses tells the client which port to
// connect to, as the server's LID.
//
// One goroutine owns everything here.
package pingpong
