// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/fsm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// SIDRParams are a question for a datagram service.
type SIDRParams struct {
	Path            Path
	ServiceID       cm.ServiceID
	PrivateData     []byte // at most 216 bytes, an IP header included
	ResponseTimeout uint8  // 4.096 µs × 2^n; default 20
	MaxCMRetries    uint8  // default 15
}

// ResolveSIDR asks which queue pair serves a service id. EventSIDRReply
// follows, or EventUnreachable.
func (a *Agent) ResolveSIDR(now monotime.Time, p SIDRParams) (ConnID, error) {
	setDefault(&p.ResponseTimeout, defaultResponseTimeout)
	setDefault(&p.MaxCMRetries, defaultMaxCMRetries)
	req := cm.SIDRREQ{PKey: ib.DefaultPKey, ServiceID: p.ServiceID}
	if !fill(req.PrivateData[:], p.PrivateData) {
		return 0, ErrPrivateData
	}
	c := a.newConn(p.Path)
	if c == nil {
		return 0, ErrTooMany
	}
	req.RequestID, c.active = c.localID, true
	c.last = encode(cm.AttrSIDRREQ, c.tid, &req)
	c.setPace(p.ResponseTimeout, defaultACKTimeout, p.MaxCMRetries)
	a.setState(c, SIDRReqSent)
	a.repeat(now, c)
	return c.id, nil
}

// handleSIDRREQ takes a question.
func (a *Agent) handleSIDRREQ(now monotime.Time, path Path, tid uint64, m *cm.SIDRREQ,
	from sender) {
	if c := a.bySIDR[sidrKey{plainAddr(path.Remote), m.RequestID}]; c != nil {
		a.count[DuplicateREQ]++
		if c.state == SIDRAnswered {
			a.send(c.path, &c.last)
		}
		return
	}
	if !m.PKey.Matches(ib.DefaultPKey) {
		a.count[BadPKey]++
		a.refuseSIDR(path, tid, m, cm.SIDRRejected) // no status names the P_Key
		a.refused(Refusal{path, m.ServiceID, 0, cm.RejUnsupported})
		return
	}
	l := a.match(m.ServiceID, path.Local)
	if l == nil {
		a.count[NoListener]++
		a.refuseSIDR(path, tid, m, cm.SIDRUnsupported)
		a.refused(Refusal{path, m.ServiceID, 0, cm.RejInvalidServiceID})
		return
	}
	var mad MAD
	m.Append(begin(&mad, cm.AttrSIDRREQ, tid))
	c := a.newRequest(now, path, l, &mad, m.RequestID, from)
	if c == nil {
		return
	}
	c.tid, c.remoteID = tid, m.RequestID
	a.bySIDR[c.sidrKey()] = c
	a.setState(c, SIDRReqRcvd)
	a.raise(c, Event{Kind: EventSIDRRequest, Listener: l.id, ServiceID: m.ServiceID,
		PrivateData: clone(m.PrivateData[:])})
}

// refuseSIDR answers a question without keeping anything of it: the same
// question again gets the same answer.
func (a *Agent) refuseSIDR(path Path, tid uint64, m *cm.SIDRREQ, why cm.SIDRStatus) {
	rep := cm.SIDRREP{RequestID: m.RequestID, Status: why, ServiceID: m.ServiceID}
	var mad MAD
	rep.Append(begin(&mad, cm.AttrSIDRREP, tid))
	a.answer(path, &mad)
}

// SIDRReply is the answer to a SIDR_REQ.
type SIDRReply struct {
	Status      cm.SIDRStatus
	QPN         ib.QPN
	QKey        ib.QKey
	PrivateData []byte // at most 136 bytes
}

// ReplySIDR answers a question.
func (a *Agent) ReplySIDR(now monotime.Time, id ConnID, r SIDRReply) error {
	c, err := a.get(id, "ReplySIDR", fsm.SetOf(SIDRReqRcvd))
	if err != nil {
		return err
	}
	m := cm.SIDRREP{Status: r.Status, QPN: r.QPN, QKey: r.QKey}
	if !fill(m.PrivateData[:], r.PrivateData) {
		return ErrPrivateData
	}
	a.answerSIDR(now, c, &m)
	return nil
}

func (a *Agent) answerSIDR(now monotime.Time, c *conn, m *cm.SIDRREP) {
	m.RequestID = c.remoteID
	m.ServiceID = c.listener.service
	c.last = encode(cm.AttrSIDRREP, c.tid, m)
	a.send(c.path, &c.last)
	a.setState(c, SIDRAnswered)
	a.answered(c)
	a.remember(now, c)
}

// handleSIDRREP takes the answer to our question.
func (a *Agent) handleSIDRREP(now monotime.Time, path Path, tid uint64, m *cm.SIDRREP) {
	if a.challenged(now, path, tid) {
		return
	}
	c, _ := a.lookup(path, m.RequestID, 0)
	if c == nil {
		return
	}
	if c.state != SIDRReqSent {
		a.count[IgnoredState]++
		return
	}
	ev := Event{Kind: EventSIDRReply, SIDRStatus: m.Status, PrivateData: clone(m.PrivateData[:]),
		ServiceID: m.ServiceID}
	if m.Status == cm.SIDRSuccess {
		ev.QPN, ev.QKey = m.QPN, m.QKey
	}
	a.raise(c, ev)
	a.close(c)
}
