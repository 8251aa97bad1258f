// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

func gidOf(a netip.Addr) ib.GID { return ib.GIDFromAddr(plainAddr(a)) }

// handleREQ takes a request for a connection.
//
// Spec: IBTA vol. 1, 12.9.8.3.1 REQ received / REP received, for stale connections.
func (a *Agent) handleREQ(now monotime.Time, path Path, h *cm.Header, m *cm.REQ, from sender) {
	tid := h.TransactionID
	if c := a.byRemote[remoteKey{plainAddr(path.Remote), m.LocalCAGUID, m.LocalCommID}]; c != nil {
		a.handleDuplicateREQ(c)
		return
	}
	if why := a.checkREQ(path, m); why != 0 {
		a.refuse(path, tid, m, why)
		return
	}
	l := a.match(m.ServiceID, path.Local)
	if l == nil && a.tooEarly(now, path, h, m) {
		a.count[EarlyREQ]++
		return
	}
	if l == nil {
		a.count[NoListener]++
		a.refuse(path, tid, m, cm.RejInvalidServiceID)
		return
	}
	if old := a.byQPN[remoteQPN{plainAddr(path.Remote), m.LocalCAGUID, m.LocalQPN}]; old != nil {
		a.count[StaleRejected]++
		a.refuse(path, tid, m, cm.RejStaleConnection)
		a.doubt(old)
		return
	}
	a.admit(now, path, h, l, m, from)
}

// refuse answers a request that makes no connection.
func (a *Agent) refuse(path Path, tid uint64, m *cm.REQ, why cm.Reason) {
	a.sendREJ(path, tid, &cm.REJ{RemoteCommID: m.LocalCommID, Of: cm.OfREQ, Reason: why})
	a.refused(Refusal{path, m.ServiceID, m.LocalQPN, why})
}

// checkREQ judges the fields of a REQ in the order of the message; 0 is well.
// The path inside must be the path it came by: answers go to where a REQ came
// from, never to an address that only its bytes claim.
//
// Its alternate path is not looked at: a LAP is refused, so nothing ever migrates there, and the
// REP says that failover is not supported.
func (a *Agent) checkREQ(path Path, m *cm.REQ) cm.Reason {
	switch {
	case !connectable(m.LocalQPN):
		a.count[BadQPN]++
		return cm.RejUnsupported
	case m.Service != cm.ServiceRC && m.Service != cm.ServiceUC &&
		!(m.Service == cm.ServiceExtended && m.ExtendedTransport == cm.ExtendedXRC):
		a.count[BadTransport]++
		return cm.RejInvalidTransportType
	case !m.PKey.Matches(ib.DefaultPKey):
		a.count[BadPKey]++
		return cm.RejUnsupported
	case !m.PathMTU.Valid():
		a.count[BadMTU]++
		return cm.RejInvalidMTU
	case m.Primary.LocalGID != gidOf(path.Remote) || m.Primary.RemoteGID != gidOf(path.Local):
		a.count[BadGID]++
		return cm.RejInvalidGID
	}
	return 0
}

// admit makes a connection of a REQ that was admitted, and holds any other.
func (a *Agent) admit(now monotime.Time, path Path, h *cm.Header, l *listener, m *cm.REQ,
	from sender) {
	var mad MAD
	m.Append(h.Append(mad[:0]))
	c := a.newRequest(now, path, l, &mad, m.LocalCommID, from)
	if c == nil {
		return
	}
	c.tid, c.remoteID, c.guid = h.TransactionID, m.LocalCommID, m.LocalCAGUID
	c.qp = QPParams{
		Path: path, Service: m.Service, DestQPN: m.LocalQPN, SQPSN: m.StartingPSN,
		PathMTU: m.PathMTU, MaxRdAtomic: m.ResponderResources, MaxDestRdAtomic: m.InitiatorDepth,
		Timeout:  combineACKTimeout(max(m.Primary.ACKTimeout, 1), a.ACKDelay),
		RetryCnt: m.RetryCount, RNRRetry: m.RNRRetryCount, TrafficClass: m.Primary.TrafficClass,
		FlowLabel: m.Primary.FlowLabel,
	}
	c.alternate = !m.Alternate.LocalGID.IsZero()
	c.setPace(m.LocalResponseTimeout, m.Primary.ACKTimeout, m.MaxCMRetries)
	a.byRemote[c.remoteKey()], a.byQPN[c.remoteQPN()] = c, c
	a.setState(c, ReqRcvd)
	a.raise(c, Event{
		Kind: EventRequest, Listener: l.id, ServiceID: m.ServiceID,
		PrivateData: clone(m.PrivateData[:]), Params: Params{
			Service: m.Service, RemoteGUID: m.LocalCAGUID, RemoteQPN: m.LocalQPN,
			RemotePSN: m.StartingPSN, PathMTU: m.PathMTU, ResponderResources: m.InitiatorDepth,
			InitiatorDepth: m.ResponderResources, FlowControl: m.FlowControl,
			RetryCount: m.RetryCount, RNRRetryCount: m.RNRRetryCount, SRQ: m.SRQ,
			ECE:          ib.ECE{VendorID: m.VendorID, Options: h.Modifier},
			TrafficClass: m.Primary.TrafficClass, FlowLabel: m.Primary.FlowLabel,
		},
	})
}

// newRequest makes a connection of a request that was admitted for a listener. It holds any other
// and returns nil.
func (a *Agent) newRequest(now monotime.Time, path Path, l *listener, mad *MAD, theirs uint32,
	from sender) *conn {
	if from != admitted {
		a.hold(now, path, mad, theirs, from)
		return nil
	}
	c := a.newConn(path)
	c.listener, c.waiting = l, true
	l.waiting++
	return c
}

// answered notes that the application has done with a request, which so leaves the backlog. Until
// then one that has ended counts: the application has it to look at.
func (a *Agent) answered(c *conn) {
	if c.waiting {
		c.waiting = false
		c.listener.waiting--
		a.madeRoom()
	}
}

// handleDuplicateREQ answers a REQ that came before, as the state demands.
func (a *Agent) handleDuplicateREQ(c *conn) {
	a.count[DuplicateREQ]++
	switch {
	case requested.Has(c.state): // the application takes its time
		a.sendMRA(c, cm.OfREQ, mraServiceTimeout, nil)
		a.setState(c, MRAReqSent)
	case awaitingReady.Has(c.state): // the REP was lost, or crossed the REQ
		a.send(c.path, &c.last)
	case c.state == Rejected: // the REJ was lost
		a.send(c.path, &c.last)
	case c.state == Timewait:
		a.sendREJ(c.path, c.tid,
			&cm.REJ{RemoteCommID: c.remoteID, Of: cm.OfREQ, Reason: cm.RejStaleConnection})
	}
}

// A REP goes again after repPause and then after twice as long, until the pause is the one that the
// peer has asked for. So repEarly repetitions are more than it has asked for.
const (
	repPause = 500 * monotime.Millisecond
	repEarly = 4
)

// nextPause returns how long to wait after a MAD was sent again.
func (c *conn) nextPause() monotime.Duration {
	if !awaitingReady.Has(c.state) {
		return c.interval
	}
	c.pause = min(2*c.pause, c.interval)
	return c.pause
}

// Accept answers a request with a REP. EventEstablished follows, or
// EventRejected or EventUnreachable.
func (a *Agent) Accept(now monotime.Time, id ConnID, p AcceptParams) error {
	c, err := a.get(id, "Accept", requested)
	if err != nil {
		return err
	}
	rep := cm.REP{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, LocalQPN: p.QPN, StartingPSN: p.PSN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TargetACKDelay: a.ACKDelay, FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount,
		SRQ: p.SRQ, LocalCAGUID: a.GUID, VendorID: p.ECE.VendorID,
	}
	if c.qp.Service == cm.ServiceExtended { // a target initiates nothing, and receives from SRQs
		rep.LocalQPN, rep.LocalEECN = 0, uint32(p.QPN)
		rep.InitiatorDepth, rep.FlowControl, rep.SRQ = 0, false, true
	}
	if c.alternate {
		rep.Failover = cm.FailoverUnsupported
	}
	if !fill(rep.PrivateData[:], p.PrivateData) {
		return ErrPrivateData
	}
	c.localQPN, c.qp.RQPSN = p.QPN, p.PSN
	c.qp.MaxRdAtomic, c.qp.MaxDestRdAtomic = p.InitiatorDepth, p.ResponderResources
	c.last = encodeECE(cm.AttrREP, c.tid, &rep, p.ECE.Options)
	a.setState(c, RepSent)
	a.answered(c)
	a.send(c.path, &c.last)
	c.retries, c.pause = repEarly+c.maxRetry, repPause
	a.timers.set(c, now.Add(c.pause))
	return nil
}

// handleRTU takes the third message of the handshake.
func (a *Agent) handleRTU(now monotime.Time, path Path, m *cm.RTU) {
	c, _ := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		return
	}
	if !awaitingReady.Has(c.state) {
		a.count[IgnoredState]++
		return
	}
	a.established(c, m.PrivateData[:])
}

// CommEstablished handles the first packet of the peer to the queue pair: the connection is
// established even if the RTU was lost. Other states ignore it.
func (a *Agent) CommEstablished(now monotime.Time, id ConnID) {
	if c := a.conns[id]; c != nil && awaitingReady.Has(c.state) {
		a.established(c, nil)
	}
}

func (a *Agent) established(c *conn, private []byte) {
	a.timers.remove(c)
	a.setState(c, Established)
	a.raise(c, Event{Kind: EventEstablished, PrivateData: clone(private)})
}
