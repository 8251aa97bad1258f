// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// nudge makes a peer look at its stream again that may have overlooked the first message of an
// initiator. siw as a responder sends its Reply and only then has its socket report input: a
// message that comes in between stays there until more comes. A WRITE of no bytes makes it look,
// and means nothing. A peer that has sent anything has looked.
//
// Source: siw_accept in Linux, drivers/infiniband/sw/siw/siw_cm.c.
type nudge struct {
	on   bool          // the peer is one that may need it, and has said nothing yet
	due  bool          // one is to be sent
	sent int           // so far
	at   monotime.Time // when the next is due, if nothing has come before
}

const (
	nudgeWait = 50 * monotime.Millisecond // each time twice as long
	maxNudges = 8                         // the last after 13 s, when any set-up has been given up
)

// spoke is called when we send something: the first time begins the wait.
func (n *nudge) spoke(now monotime.Time) {
	if n.on && n.sent == 0 && !n.due && n.at == monotime.Never {
		n.at = now.Add(nudgeWait)
	}
}

// heard is called when the peer has sent something.
func (n *nudge) heard() { n.on, n.due, n.at = false, false, monotime.Never }

func (n *nudge) handleTimeout(now monotime.Time) {
	if !now.Before(n.at) {
		n.due, n.at = true, monotime.Never
	}
}

func (q *QP) peekNudge() {
	q.out.header(wire.Header{Control: wire.NewControl(wire.RDMAWrite, true), STag: zeroSTag})
}

func (q *QP) commitNudge(now monotime.Time) {
	n := &q.nudge
	q.Count[Nudges]++
	n.due = false
	if n.sent++; n.sent < maxNudges {
		n.at = now.Add(nudgeWait << n.sent)
	}
}
