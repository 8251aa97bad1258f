// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Reject refuses a request, or a reply: a REJ with the reason, at most 72 bytes
// of additional information and 148 of private data. The connection is over.
func (a *Agent) Reject(now monotime.Time, id ConnID, why cm.Reason, ari, private []byte) error {
	c, err := a.get(id, "Reject", requested|replied|awaitingReady)
	if err != nil {
		return err
	}
	rej := cm.REJ{ARILength: uint8(len(ari)), Reason: why}
	if !fill(rej.ARI[:], ari) || !fill(rej.PrivateData[:], private) {
		return ErrPrivateData
	}
	a.reject(now, c, &rej)
	return nil
}

func (a *Agent) reject(now monotime.Time, c *conn, rej *cm.REJ) {
	rej.LocalCommID, rej.RemoteCommID = c.localID, c.remoteID
	a.timers.remove(c)
	switch {
	case requested.Has(c.state):
		rej.Of = cm.OfREQ
		c.last = encode(cm.AttrREJ, c.tid, rej)
		a.setState(c, Rejected)
		a.forgetQPN(c)
		a.answered(c)
		a.remember(now, c)
	case awaitingReady.Has(c.state):
		rej.Of = cm.OfOther // our own REP taken back
		c.last = encode(cm.AttrREJ, c.tid, rej)
		a.enterTimewait(now, c)
	default:
		rej.Of = cm.OfREP
		c.last = encode(cm.AttrREJ, c.tid, rej)
		a.enterTimewait(now, c)
	}
	a.send(c.path, &c.last)
}

func (a *Agent) sendREJ(path Path, tid uint64, m *cm.REJ) {
	var mad MAD
	m.Append(begin(&mad, cm.AttrREJ, tid))
	a.answer(path, &mad)
}

// sendTimeoutREJ notifies a peer that did not answer that we have given up. As it may not know our
// id, and we not its, the additional information names us.
func (a *Agent) sendTimeoutREJ(c *conn, of cm.Rejected) {
	rej := cm.REJ{LocalCommID: c.localID, RemoteCommID: c.remoteID, Of: of, Reason: cm.RejTimeout,
		ARILength: 8}
	binary.BigEndian.PutUint64(rej.ARI[:], uint64(a.GUID))
	a.sendREJ(c.path, c.tid, &rej)
}

// handleREJ takes the refusal of a message we sent, or the news that the peer
// has given up waiting for one.
func (a *Agent) handleREJ(now monotime.Time, path Path, m *cm.REJ) {
	c := a.rejected(path, m)
	if c == nil {
		return
	}
	ev := Event{
		Kind: EventRejected, Reason: m.Reason, PrivateData: clone(m.PrivateData[:]),
		ARI: clone(m.ARI[:min(m.ARILength, cm.ARISize)]),
	}
	switch {
	case awaitingReply.Has(c.state) && m.Reason == cm.RejStaleConnection, replied.Has(c.state):
		a.timers.remove(c)
		a.raise(c, ev)
		a.enterTimewait(now, c)
	case (awaitingReply | halfOpenStates).Has(c.state):
		a.raise(c, ev)
		a.close(c)
	case c.state == DreqSent: // the peer knows nothing of the connection
		a.raise(c, Event{Kind: EventDisconnected})
		a.enterTimewait(now, c)
	default:
		a.count[IgnoredState]++
	}
}

// rejected finds the connection that a REJ speaks of. One for a time-out may
// not name our id: then the peer's GUID and id do.
func (a *Agent) rejected(path Path, m *cm.REJ) *conn {
	if m.RemoteCommID == 0 && m.Reason == cm.RejTimeout && m.ARILength >= 8 {
		guid := ib.GUID(binary.BigEndian.Uint64(m.ARI[:]))
		c := a.byRemote[remoteKey{plainAddr(path.Remote), guid, m.LocalCommID}]
		if c == nil {
			a.count[UnknownConn]++
		}
		return c
	}
	theirs := m.LocalCommID
	if c := a.byLocal[m.RemoteCommID]; c != nil && theirs == 0 {
		theirs = c.remoteID // a REJ from no connection has no id
	}
	c, _ := a.lookup(path, m.RemoteCommID, theirs)
	return c
}
