// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/congestion"
)

// Expect sets the PSN that the responder expects, as if it had received what lies before.
func (q *QP) Expect(psn ib.PSN) { q.resp.epsn = psn }

// EntryLeft is entryLeft.
var EntryLeft = entryLeft

// Expected returns the PSN that the responder expects, and whether it is inside a message.
func (q *QP) Expected() (psn ib.PSN, inside bool) { return q.resp.epsn, q.resp.in != inNone }

// Widen has the window begin as that within a host.
func (q *QP) Widen() { q.req.loss.Widen() }

// Settle has the window be that of a queue pair that has sent for a while.
func (q *QP) Settle() {
	for l := &q.req.loss; l.Bytes() < congestion.Ordinary; {
		l.Acked(0, l.Bytes())
	}
}
