// SPDX-License-Identifier: BSD-2-Clause

// Package replay plays one side of a capture of real traffic against our machine. The peer's
// packets come as they were recorded, and the work that the recorded end must have posted is
// posted. Our machine's packets are held field by field against those of the recorded end.
//
// Not compared, because the specification leaves them open: MigReq, reserved bits, the UDP
// source port, credits, the MSN of a NAK. Keys are ours: those that the
// recorded end granted are exchanged for ours on the way in. rxe sends all at once that is posted,
// so our machine begins with the first window within a host.
package replay
