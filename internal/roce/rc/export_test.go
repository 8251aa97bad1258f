// SPDX-License-Identifier: BSD-2-Clause

package rc

import "verbena/ib"

// Expect sets the PSN that the responder expects, as if it had received what lies before.
func (q *QP) Expect(psn ib.PSN) { q.resp.epsn = psn }

// EntryLeft is entryLeft.
var EntryLeft = entryLeft
