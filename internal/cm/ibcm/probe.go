// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/wire/cm"
)

// A probe asks a peer whether it has a connection, and ends nothing: a DREQ that
// names the connection and a queue pair that cannot be. A connection manager that
// has the connection drops it; one that has not answers it with a DREP, with the
// probe's transaction id, which nobody else knows.
//
// Spec: IBTA vol. 1, 12.6.14. Source: cm_dreq_handler in Linux, which does both.

// noQP is the queue pair of no connection.
const noQP = ib.QP1

// sendProbe asks the peer at the end of a path about a connection.
func (a *Agent) sendProbe(path Path, tid uint64, ours, theirs uint32) {
	a.count[Probed]++
	mad := encode(cm.AttrDREQ, tid, &cm.DREQ{LocalCommID: ours, RemoteCommID: theirs, RemoteQPN: noQP})
	a.send(path, &mad)
}

// denial marks the transaction id of the first of two probes.
const denial = 1 << 63

// challenge asks whether a peer has sent a request, by two probes: for the connection
// that the request begins, which has no id of ours yet, and for one beside it, which
// neither side has. The peer that has sent the request answers the second alone; a
// peer in whose name it was forged answers the first, too, and before.
//
// Source: cm_acquire_id in Linux, to which a connection has the peer's id 0 until
// there is a REP.
func (a *Agent) challenge(path Path, tid uint64, ours, theirs uint32) {
	a.sendProbe(path, tid|denial, 0, theirs)
	a.sendProbe(path, tid, ours, theirs^1)
}

// doubt asks the peer whether it still has a connection, because a REQ or REP names
// the queue pair that the connection is with. Either the peer has lost the
// connection, or somebody else has forged the message. A connection that is not
// established needs no probe: its own time-outs end it.
//
// Deviation: IBTA vol. 1, 12.9.8.3.1 REQ received / REP received has the connection
// ended at once, by a message that anybody can forge.
func (a *Agent) doubt(c *conn) {
	if c.state != Established {
		return
	}
	if c.probe == 0 {
		c.probe = a.newProbe()
	}
	a.sendProbe(c.path, c.probe, c.localID, c.remoteID)
}

// deniedBy reports whether a DREP is the answer to a probe: the peer does not have
// the established connection.
func (c *conn) deniedBy(tid uint64) bool {
	return c.state == Established && c.probe != 0 && c.probe == tid
}

// newProbe returns a transaction id for a probe, never 0.
func (a *Agent) newProbe() uint64 { return a.Random()&^denial | 1 }
