// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/monotime"
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
	mad := encode(cm.AttrDREQ, tid,
		&cm.DREQ{LocalCommID: ours, RemoteCommID: theirs, RemoteQPN: noQP})
	a.answer(path, &mad)
}

// denial marks the transaction id of the first of two probes.
const denial = 1 << 63

// challenge asks whether a peer has sent a request, by two probes: for the connection
// that the request begins, which has no id of ours yet, and for one beside it, which
// neither side has. The peer that has sent the request answers the second alone; a
// peer in whose name it was forged answers the first, too, and before.
//
// The specification does not define the answer to a DREQ for no connection. It makes every manager
// answer a SIDR_REQ for a service that nobody offers. The last challenge sends one instead of the
// second probe.
//
// Source: cm_acquire_id and cm_dreq_handler in Linux: a connection has the peer's id 0
// until there is a REP. Spec: IBTA vol. 1, 12.11.
func (a *Agent) challenge(h *held) {
	a.sendProbe(h.path, h.tid|denial, 0, h.theirs)
	if h.asked < heldAsks {
		a.sendProbe(h.path, h.tid, h.ours, h.theirs^1)
		return
	}
	a.count[Probed]++
	var mad MAD
	req := cm.SIDRREQ{RequestID: h.ours, PKey: ib.DefaultPKey, ServiceID: noService}
	req.Append(begin(&mad, cm.AttrSIDRREQ, h.tid))
	a.answer(h.path, &mad)
}

// noService is the service that nobody offers: rdma_cm's begin with its prefix.
const noService cm.ServiceID = 0

// challenged takes the answer to a challenge: the peer has sent the request, or denies it.
func (a *Agent) challenged(now monotime.Time, path Path, tid uint64) bool {
	h := a.holding.find(now, tid&^denial)
	switch {
	case h == nil || h.path != path:
		return false
	case tid&denial != 0:
		a.count[Unproven]++
		h.tid = 0
	default:
		a.prove(now, h)
	}
	return true
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
