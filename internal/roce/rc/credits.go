// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// credits limits the SENDs of a requester by the receives that the responder has posted.
//
// An acknowledgement rounds their number down: 50 receives are 48 credits. It may also come late,
// as that of an application which answers covers several messages. So a message from a peer that is
// Verbena stands for a receive too: a program posts a receive for the answer before it asks. If the
// responder is not ready once, only acknowledgements count from then on.
//
// Spec: IBTA vol. 1, 9.7.7.2 End-to-end flow control, which XRC does without.
type credits struct {
	known  bool   // the newest acknowledgement had credits
	limit  ib.MSN // the last message that has a receive; holds while known
	most   int32  // the largest number of receives that credits stood for
	strict bool   // an RNR NAK has come
}

// takeCredits notes the receives that an acknowledgement tells of.
func (q *QP) takeCredits(a wire.AETH) {
	c := &q.req.credits
	code := a.Syndrome.Value()
	n, ok := wire.Credits(code)
	if !ok || q.service != wire.ServiceRC {
		c.known = false
		return
	}
	limit := a.MSN.Add(n)
	if !c.known || c.strict || !q.req.own || limit.Diff(c.limit) > 0 {
		c.limit = limit
	}
	if next, ok := wire.Credits(code + 1); ok { // the code stands for fewer
		n = next - 1
	}
	c.known, c.most = true, max(c.most, int32(n))
}

// heard notes a message of the peer that took a receive.
func (r *requester) heard() {
	c := &r.credits
	if c.known && r.own && !c.strict && c.limit.Diff(r.ssn) < c.most {
		c.limit = c.limit.Add(1)
	}
}

// reach reports whether a message has a receive.
func (c *credits) reach(m ib.MSN) bool { return !c.known || m.Diff(c.limit) <= 0 }

// left returns how many messages behind the newest one have a receive, -1 if the peer does not say.
func (c *credits) left(newest ib.MSN) int {
	if !c.known {
		return -1
	}
	return int(max(c.limit.Diff(newest), 0))
}
