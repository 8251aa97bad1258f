// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// responseRate limits the rate of responses to READs and atomics of a foreign requester, as the
// reaction point of an adapter does. Nothing acknowledges responses: they have no window and no
// round trip. Nothing limits them before the first CNP.
type responseRate struct {
	reaction congestion.Reaction
	limit    roce.RateLimit
}

func (r *responseRate) follow() { r.limit.Follow(r.reaction.Pace()) }

// slowResponses has a CNP slow the responses.
func (q *QP) slowResponses(now monotime.Time) {
	r := q.resp.rate
	if r == nil {
		r = &responseRate{reaction: congestion.NewReaction()}
		q.resp.rate = r
	}
	r.reaction.Notified(now, 0)
	r.follow()
}

// sentResponse takes note of n bytes of responses sent. The rate rises meanwhile.
func (q *QP) sentResponse(now monotime.Time, n int) {
	r := q.resp.rate
	r.limit.Sent(now, n)
	r.reaction.Sent(now, 0, n)
	if r.follow(); r.reaction.Free() {
		q.resp.rate = nil
	}
}
