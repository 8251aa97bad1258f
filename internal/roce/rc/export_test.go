// SPDX-License-Identifier: BSD-2-Clause

package rc

import "verbena/ib"

// Expect sets the PSN that the responder expects, as if it had received what lies before.
func (q *QP) Expect(psn ib.PSN) { q.resp.epsn = psn }

// EntryLeft is entryLeft.
var EntryLeft = entryLeft

// Expected returns the PSN that the responder expects, and whether it is inside a message.
func (q *QP) Expected() (psn ib.PSN, inside bool) { return q.resp.epsn, q.resp.in != inNone }
