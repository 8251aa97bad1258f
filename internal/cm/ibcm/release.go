// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"cmp"
	"maps"
	"slices"

	"verbena/internal/fsm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Disconnect ends an established connection: with a DREQ, after which
// EventDisconnected follows, or, when the peer has sent one, with the DREP.
// Private data are at most 220 bytes.
func (a *Agent) Disconnect(now monotime.Time, id ConnID, private []byte) error {
	c, err := a.get(id, "Disconnect", fsm.SetOf(Established, DreqRcvd))
	if err != nil {
		return err
	}
	if c.state == DreqRcvd {
		var drep cm.DREP
		if !fill(drep.PrivateData[:], private) {
			return ErrPrivateData
		}
		a.finishRelease(now, c, &drep)
		return nil
	}
	var dreq cm.DREQ
	if !fill(dreq.PrivateData[:], private) {
		return ErrPrivateData
	}
	a.startRelease(now, c, &dreq)
	return nil
}

// startRelease sends and repeats a DREQ.
func (a *Agent) startRelease(now monotime.Time, c *conn, m *cm.DREQ) {
	m.LocalCommID, m.RemoteCommID, m.RemoteQPN = c.localID, c.remoteID, c.qp.DestQPN
	c.tid = a.Random()
	c.last = encode(cm.AttrDREQ, c.tid, m)
	a.setState(c, DreqSent)
	a.repeat(now, c)
}

// finishRelease answers the peer's DREQ, now and when it is repeated.
func (a *Agent) finishRelease(now monotime.Time, c *conn, m *cm.DREP) {
	m.LocalCommID, m.RemoteCommID = c.localID, c.remoteID
	c.last = encode(cm.AttrDREP, c.tid, m)
	a.send(c.path, &c.last)
	a.enterTimewait(now, c)
}

// handleDREQ takes the peer's wish to end the connection.
func (a *Agent) handleDREQ(now monotime.Time, path Path, tid uint64, m *cm.DREQ) {
	c, known := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		if !known { // a connection that is over: the DREP was lost
			a.sendDREP(path, tid, &cm.DREP{LocalCommID: m.RemoteCommID,
				RemoteCommID: m.LocalCommID})
		}
		return
	}
	if m.RemoteQPN != c.localQPN {
		a.count[BadQPN]++
		return
	}
	switch {
	case awaitingReady.Has(c.state): // a DREQ implies the RTU that was lost
		a.established(c, nil)
		a.peerReleases(c, tid, m)
	case c.state == Established:
		a.peerReleases(c, tid, m)
	case c.state == DreqSent: // both sides at once
		a.raise(c, Event{Kind: EventDisconnected, PrivateData: clone(m.PrivateData[:])})
		c.tid = tid
		a.finishRelease(now, c, &cm.DREP{})
	case c.state == Timewait:
		a.count[DuplicateDREQ]++
		a.sendDREP(c.path, tid, &cm.DREP{LocalCommID: c.localID, RemoteCommID: c.remoteID})
	case c.state == DreqRcvd: // the application will answer
		a.count[DuplicateDREQ]++
	default:
		a.count[IgnoredState]++
	}
}

func (a *Agent) sendDREP(path Path, tid uint64, m *cm.DREP) {
	var mad MAD
	m.Append(begin(&mad, cm.AttrDREP, tid))
	a.answer(path, &mad)
}

func (a *Agent) peerReleases(c *conn, tid uint64, m *cm.DREQ) {
	c.tid = tid
	a.setState(c, DreqRcvd)
	a.raise(c, Event{Kind: EventDisconnected, PrivateData: clone(m.PrivateData[:])})
}

// handleDREP takes the answer to our DREQ.
func (a *Agent) handleDREP(now monotime.Time, path Path, tid uint64, m *cm.DREP) {
	if a.challenged(now, path, tid) {
		return
	}
	c, _ := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		return
	}
	if c.state != DreqSent && !c.deniedBy(tid) {
		a.count[IgnoredState]++
		return
	}
	a.raise(c, Event{Kind: EventDisconnected, PrivateData: clone(m.PrivateData[:])})
	a.enterTimewait(now, c)
}

// Destroy gives a ConnID back; no event of it follows. The peer learns as the state demands: by a
// REJ, a DREQ or a DREP. Repetitions and waits go on without the application. Destroying an unknown
// id does nothing.
func (a *Agent) Destroy(now monotime.Time, id ConnID) {
	c := a.conns[id]
	if c == nil || !c.owned {
		return
	}
	c.owned = false
	switch {
	case awaitingReply.Has(c.state):
		a.sendTimeoutREJ(c, cm.OfREQ)
		a.close(c)
	case awaitingReady.Has(c.state): // the peer may have confirmed: then it passes over the REJ
		will, _ := a.Will(id)
		a.reject(now, c, &cm.REJ{Reason: cm.RejConsumer})
		a.send(will.Path, &will.MAD)
	case (requested | replied).Has(c.state):
		a.reject(now, c, &cm.REJ{Reason: cm.RejConsumer})
	case c.state == Established:
		a.startRelease(now, c, &cm.DREQ{})
	case c.state == DreqRcvd:
		a.finishRelease(now, c, &cm.DREP{})
	case c.state == SIDRReqRcvd:
		a.answerSIDR(now, c, &cm.SIDRREP{Status: cm.SIDRRejected})
	case c.state == SIDRReqSent:
		a.close(c)
	case c.state == Closed:
		delete(a.conns, c.id)
		a.madeRoom()
	}
	a.answered(c)
}

// Close destroys every connection, in the order they were made. Its messages are in PollOutput.
func (a *Agent) Close(now monotime.Time) {
	for _, c := range a.inOrder() {
		a.Destroy(now, c.id)
	}
}

// inOrder returns every connection, in the order they were made.
func (a *Agent) inOrder() []*conn {
	return slices.SortedFunc(maps.Values(a.conns),
		func(x, y *conn) int { return cmp.Compare(x.id, y.id) })
}
