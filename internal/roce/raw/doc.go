// SPDX-License-Identifier: BSD-2-Clause

// Package raw is the raw packet service: one QP value sends and receives whole Ethernet frames for
// one queue pair. It is sans-IO as package roce describes, and its caller owns it.
//
//	send      work request ─► PollFrame ─► frame, from destination MAC to the last byte of payload
//	receive   frame ─► HandleFrame ─► the oldest receive, which completes
//
// A frame has neither preamble nor check sequence. Flow steering decides which frames a queue pair
// receives, so that HandleFrame looks at no header.
//
// Source: ibv_create_qp(3), ibv_modify_qp(3): IBV_QPT_RAW_PACKET.
package raw
