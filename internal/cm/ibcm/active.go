// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Connect sends a REQ and returns the new connection, which ends in EventReply,
// EventRejected or EventUnreachable.
func (a *Agent) Connect(now monotime.Time, p ConnectParams) (ConnID, error) {
	p.setDefaults()
	req := cm.REQ{
		VendorID: p.ECE.VendorID, ServiceID: p.ServiceID, LocalCAGUID: a.GUID, LocalQPN: p.QPN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		RemoteResponseTimeout: p.ResponseTimeout, Service: p.Service, FlowControl: p.FlowControl,
		StartingPSN: p.PSN, LocalResponseTimeout: p.ResponseTimeout, RetryCount: p.RetryCount,
		PKey: ib.DefaultPKey, PathMTU: p.PathMTU, RNRRetryCount: p.RNRRetryCount,
		MaxCMRetries: p.MaxCMRetries, SRQ: p.SRQ, Primary: cm.Path{
			LocalLID: cm.LIDRoCE, RemoteLID: cm.LIDRoCE, LocalGID: gidOf(p.Path.Local),
			RemoteGID: gidOf(p.Path.Remote), FlowLabel: p.FlowLabel, Rate: pathRate10Gbps,
			TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, ACKTimeout: p.ACKTimeout,
		},
	}
	if p.Service == cm.ServiceExtended {
		// an initiator has nothing to respond with, and no receives
		req.ExtendedTransport = cm.ExtendedXRC
		req.ResponderResources, req.RetryCount, req.RNRRetryCount, req.SRQ = 0, 0, 0, false
	}
	if !fill(req.PrivateData[:], p.PrivateData) {
		return 0, ErrPrivateData
	}
	c := a.newConn(p.Path)
	if c == nil {
		return 0, ErrTooMany
	}
	req.LocalCommID = c.localID
	c.active, c.localQPN = true, p.QPN
	c.qp = QPParams{
		Path: p.Path, Service: p.Service, RQPSN: p.PSN, PathMTU: p.PathMTU, Timeout: p.ACKTimeout,
		RetryCnt: p.RetryCount, TrafficClass: p.TrafficClass, FlowLabel: p.FlowLabel,
	}
	c.last = encodeECE(cm.AttrREQ, c.tid, &req, p.ECE.Options)
	c.setPace(p.ResponseTimeout, p.ACKTimeout, p.MaxCMRetries)
	a.setState(c, ReqSent)
	a.repeat(now, c)
	return c.id, nil
}

func (p *ConnectParams) setDefaults() {
	setDefault(&p.ResponseTimeout, defaultResponseTimeout)
	setDefault(&p.MaxCMRetries, defaultMaxCMRetries)
	setDefault(&p.ACKTimeout, defaultACKTimeout)
	setDefault(&p.HopLimit, defaultHopLimit)
}

func setDefault(v *uint8, d uint8) {
	if *v == 0 {
		*v = d
	}
}

// setPace fixes how often a message of c is repeated: after the peer's response
// time and a round trip, for which the ACK time-out stands.
func (c *conn) setPace(response, ack, retries uint8) {
	c.interval = wait(response, minWaitCode, maxResponseCode) + wait(ack, minWaitCode,
		maxTimewaitCode)
	c.maxRetry = retries & maxCMRetriesMask
}

// handleREP takes the answer to our REQ.
func (a *Agent) handleREP(now monotime.Time, path Path, h *cm.Header, m *cm.REP) {
	c, known := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		if !known { // tell the peer, or it repeats its REP to nobody
			a.sendREJ(path, h.TransactionID, &cm.REJ{LocalCommID: m.RemoteCommID,
				RemoteCommID: m.LocalCommID, Of: cm.OfREP, Reason: cm.RejInvalidCommID})
		}
		return
	}
	if !awaitingReply.Has(c.state) {
		a.handleDuplicateREP(c)
		return
	}
	if c.qp.Service == cm.ServiceExtended {
		m.LocalQPN = ib.QPN(m.LocalEECN) // Spec: IBTA vol. 1, A14: a target says its number there
	}
	if !connectable(m.LocalQPN) {
		a.count[BadQPN]++
		a.failReply(now, c, m, cm.RejUnsupported)
		return
	}
	c.remoteID, c.guid = m.LocalCommID, m.LocalCAGUID
	c.qp.DestQPN = m.LocalQPN
	if old := a.byQPN[c.remoteQPN()]; old != nil {
		a.count[StaleRejected]++
		c.qp.DestQPN = 0
		a.failReply(now, c, m, cm.RejStaleConnection)
		a.doubt(old)
		return
	}
	a.byQPN[c.remoteQPN()], a.byRemote[c.remoteKey()] = c, c
	// The peer's limit bounds the READs that we start, and the other way round.
	c.qp.SQPSN, c.qp.RNRRetry = m.StartingPSN, m.RNRRetryCount
	c.qp.MaxRdAtomic, c.qp.MaxDestRdAtomic = m.ResponderResources, m.InitiatorDepth
	c.qp.Timeout = combineACKTimeout(c.qp.Timeout, m.TargetACKDelay)
	a.timers.remove(c)
	a.setState(c, RepRcvd)
	a.raise(c, Event{Kind: EventReply, PrivateData: clone(m.PrivateData[:]), Params: Params{
		Service: c.qp.Service, RemoteGUID: m.LocalCAGUID, RemoteQPN: m.LocalQPN,
		RemotePSN: m.StartingPSN, PathMTU: c.qp.PathMTU, ResponderResources: m.InitiatorDepth,
		InitiatorDepth: m.ResponderResources, FlowControl: m.FlowControl, RetryCount: c.qp.RetryCnt,
		RNRRetryCount: m.RNRRetryCount, SRQ: m.SRQ,
		ECE: ib.ECE{VendorID: m.VendorID, Options: h.Modifier},
	}})
}

// failReply refuses a REP that cannot be used.
func (a *Agent) failReply(now monotime.Time, c *conn, m *cm.REP, why cm.Reason) {
	a.sendREJ(c.path, c.tid,
		&cm.REJ{LocalCommID: c.localID, RemoteCommID: m.LocalCommID, Of: cm.OfREP, Reason: why})
	a.raise(c, Event{Kind: EventRejected, Reason: why})
	a.enterTimewait(now, c)
}

// handleDuplicateREP answers a REP that came before.
func (a *Agent) handleDuplicateREP(c *conn) {
	a.count[DuplicateREP]++
	switch {
	case replied.Has(c.state):
		a.sendMRA(c, cm.OfREP, mraServiceTimeout, nil)
		a.setState(c, MRARepSent)
	case c.state == Established && c.active: // the RTU was lost
		a.send(c.path, &c.last)
	}
}

// Establish answers the REP with an RTU: the queue pair must be ready to
// receive by now. Private data are at most 224 bytes.
func (a *Agent) Establish(now monotime.Time, id ConnID, private []byte) error {
	c, err := a.get(id, "Establish", replied)
	if err != nil {
		return err
	}
	rtu := cm.RTU{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	if !fill(rtu.PrivateData[:], private) {
		return ErrPrivateData
	}
	c.last = encode(cm.AttrRTU, c.tid, &rtu)
	a.send(c.path, &c.last)
	a.setState(c, Established)
	return nil
}

// connectable reports whether a queue pair number can belong to a connection.
func connectable(q ib.QPN) bool { return q >= invalidQPNsBelow && q != ib.QPMulticast }

func clone(b []byte) []byte { return append([]byte(nil), b...) }
