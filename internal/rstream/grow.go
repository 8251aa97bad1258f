// SPDX-License-Identifier: BSD-2-Clause

package rstream

import wire "verbena/internal/wire/rsocket"

// A stream begins with small buffers. One that carries long messages gets large ones: its two ends
// then work side by side, where they would wait for each half of a small buffer in turns. The
// receiver begins, and the sender sees it by the windows:
//
//	receiver: a half came by few messages ─► GrowReceive ─► credits grant halves of the large buffer
//	sender:   such a window               ─► GrowSend    ─► the next bytes lie in the large buffer
//
// Bytes on their way stay where they are. Each message is as before, so the peer may be any
// rsocket.

// BulkMessage is the mean length from which messages are long.
const BulkMessage = 4096

// MayGrowReceive reports whether the stream is better off with a large receive buffer, and would
// use it at once.
func (s *Stream) MayGrowReceive() bool {
	return s.rxBulk && !s.rxGrown && s.opens < len(s.open) && s.mayReceive
}

// GrowReceive adds a buffer, whose halves are granted from now on. It is called once at most.
func (s *Stream) GrowReceive(large wire.Window) {
	s.rxGrown, s.rbuf, s.rbufAt, s.rxGrant = true, large, s.ReceiveBuffer, 0
}

// MayGrowSend reports whether the peer takes more than the send buffer holds.
func (s *Stream) MayGrowSend() bool {
	return !s.txGrown && s.maySend &&
		max(s.windows[0].Length, s.windows[1].Length) > s.SendBuffer
}

// GrowSend replaces the send buffer by a larger one. The old one stays as it is until the work
// requests in it have completed. It is called once at most, and not between Free and Send.
func (s *Stream) GrowSend(size uint32) {
	s.txGrown, s.txOld = true, s.txSize-s.txFree
	s.txSize, s.txFree, s.txHead = size, size, 0
}
