// SPDX-License-Identifier: BSD-2-Clause

package rc

import "verbena/internal/queue"

// ordinaryPiece bounds the length of one READ request, unless the READs that may be outstanding
// need longer ones: readSpan windows may be in use while a lost one is missing. Nothing
// slows responses on their way, and all that follow a lost one are in vain. The requester asks in
// pieces of a quarter of its window at most.
//
// On a long path to a peer of Verbena it asks for a 32nd of the window, and for mostMarkedPiece at
// least. Two bursts of 64 KiB would not fit a buffer of 100 KB.
const (
	ordinaryPiece = 128 << 10
	readSpan      = 4
)

// leastPiece bounds the end of a READ that is one request while nothing was lost or marked. The
// first window is small, and a short READ is not to need several requests for that.
const leastPiece = 16 << 10

// On a network that marks packets a piece is a 64th of the window, within these bounds. Its
// responses come in one burst. A queue is to take the bursts of several queue pairs without a mark.
//
// Source: internal/flows/testdata/fairness.txt, eight flows of READs at 10 ms with marks.
const (
	markedPieces     = 64
	leastMarkedPiece = 4 << 10
	mostMarkedPiece  = 16 << 10
)

// mostScarcePiece bounds a piece on a long path while a response is missing. The READs that may
// still be asked for are to fill two windows.
//
// Source: internal/flows/testdata/goodput.txt, READ with 5 % lost. With 1 MiB instead a READ at
// 10 Gb/s and 10 ms drops twice as much from a buffer of 1 MB.
const mostScarcePiece = 512 << 10

// readPiece returns how many bytes the next READ request of w asks for, and whether it is new to
// the responder. One asked again ends where it ended before, as the responder knows no request that
// is longer. One that fills a hole ends with it.
func (q *QP) readPiece(w *queue.SendWQE) (n uint32, isNew bool) {
	r := &q.req
	left := w.Length - r.off
	if i := r.readOf(r.next); i >= 0 {
		end := r.reads[i].last.Add(1)
		if r.filling && r.fillEnd.Before(end) {
			end = r.fillEnd
		}
		return min(left, uint32(end.Diff(r.next))*uint32(q.MTU)), false
	}
	window, depth := r.loss.Bytes(), max(1, int(q.Attr.MaxRdAtomic))
	most := max(ordinaryPiece, readSpan*window/depth)
	if r.loss.Marks() {
		most = max(min(max(window/markedPieces, leastMarkedPiece), mostMarkedPiece), 2*window/depth)
	}
	if r.loss.Long() && r.own { // a buffer may be short beside the round trip
		most = min(most, max(window/acksPerLongWindow, mostMarkedPiece, 2*window/depth))
		if r.executed() != r.una { // all READs count that follow the missing response
			free := max(depth-r.readsBefore(r.next), 1)
			most = max(most, min(2*window/free, mostScarcePiece))
		}
	}
	piece := min(window/min(4, depth), most)
	if left <= leastPiece && r.loss.Starts() {
		piece = leastPiece
	}
	packets := max(piece/q.MTU, 1)
	return min(left, uint32(packets*q.MTU)), true
}
