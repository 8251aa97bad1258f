// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// MRA asks the peer for patience with a request or reply that the application
// has not answered: it waits 4.096 µs × 2^serviceTimeout, at most 31. Without
// it the Agent asks by itself when the peer repeats its message.
func (a *Agent) MRA(id ConnID, serviceTimeout uint8, private []byte) error {
	c, err := a.get(id, "MRA", requested|replied)
	if err != nil {
		return err
	}
	if len(private) > cm.MRAPrivateSize {
		return ErrPrivateData
	}
	if requested.Has(c.state) {
		a.sendMRA(c, cm.OfREQ, serviceTimeout, private)
		a.setState(c, MRAReqSent)
		return nil
	}
	a.sendMRA(c, cm.OfREP, serviceTimeout, private)
	a.setState(c, MRARepSent)
	return nil
}

func (a *Agent) sendMRA(c *conn, of cm.Rejected, serviceTimeout uint8, private []byte) {
	m := cm.MRA{LocalCommID: c.localID, RemoteCommID: c.remoteID, Of: of,
		ServiceTimeout: serviceTimeout}
	copy(m.PrivateData[:], private)
	var mad MAD
	m.Append(begin(&mad, cm.AttrMRA, c.tid))
	a.send(c.path, &mad)
}

// handleMRA waits longer for the answer to our REQ or REP. It gives no more
// retries, so that a peer cannot hold a connection half open for ever.
func (a *Agent) handleMRA(now monotime.Time, path Path, m *cm.MRA) {
	c, _ := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		return
	}
	switch {
	case awaitingReply.Has(c.state) && m.Of == cm.OfREQ:
		c.remoteID = m.LocalCommID
		a.setState(c, MRAReqRcvd)
	case awaitingReady.Has(c.state) && m.Of == cm.OfREP:
		a.setState(c, MRARepRcvd)
	default:
		a.count[IgnoredState]++
		return
	}
	a.timers.set(c, now.Add(wait(m.ServiceTimeout, minWaitCode, maxServiceCode)+c.interval))
}
