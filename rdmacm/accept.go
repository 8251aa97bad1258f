package rdmacm

import (
	"errors"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Accept takes a request: rdma_accept(3), on the ID that ConnectRequest brought.
// The ID's queue pair is ready to receive and to send when it returns; send
// after Established. Private data are at most 196 bytes, 136 for datagrams. p may
// be nil for these.
//
// Errors: ECONNRESET if the peer has given up meanwhile.
func (id *ID) Accept(p *ConnParam) error {
	if p == nil {
		p = &ConnParam{}
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Accept", stRequested); err != nil {
		return err
	}
	if id.datagrams() {
		return id.acceptUD(p)
	}
	if err := checkPrivate(p.PrivateData, cm.REPPrivateSize); err != nil {
		return err
	}
	if err := checkRetries(p); err != nil {
		return err
	}
	qpn, srq, _, err := id.endpoint(p)
	if err != nil {
		return err
	}
	rep := ibcm.AcceptParams{
		QPN: qpn, PSN: id.psn, ResponderResources: depth(p.ResponderResources, id.params.MaxDestRdAtomic),
		InitiatorDepth: depth(p.InitiatorDepth, id.params.MaxRdAtomic), FlowControl: p.FlowControl,
		RNRRetryCount: p.RNRRetryCount, SRQ: srq, PrivateData: p.PrivateData,
	}
	id.params.MaxDestRdAtomic, id.params.MaxRdAtomic = rep.ResponderResources, rep.InitiatorDepth
	if err := id.readyQP(); err != nil {
		return err
	}
	err = id.mgr.command(func(a *ibcm.Agent, now monotime.Time) error { return a.Accept(now, id.conn, rep) })
	if err != nil {
		_ = id.failQP() // the error that counts is the peer's
		return gaveUp("Accept", err)
	}
	id.state = stAccepting
	return nil
}

// gaveUp turns an agent's refusal into what the application is told: the peer
// has ended the request in the meantime.
func gaveUp(call string, err error) error {
	var wrong *ibcm.StateError
	if errors.As(err, &wrong) {
		return fail(syscall.ECONNRESET, call, "the peer has given up")
	}
	return err
}

// acceptUD answers with the queue pair that serves the port.
func (id *ID) acceptUD(p *ConnParam) error {
	if err := checkPrivate(p.PrivateData, cm.SIDRREPPrivateSize); err != nil {
		return err
	}
	qpn := p.QPN
	if id.qp != nil {
		qpn = id.qp.QPN()
	}
	if qpn <= ib.QP1 || qpn >= ib.QPMulticast {
		return invalid("QPN", "%v: the ID has no queue pair, so name one", qpn)
	}
	return id.replySIDR("Accept", ibcm.SIDRReply{QPN: qpn, QKey: UDQKey, PrivateData: p.PrivateData}, stEstablished)
}

func (id *ID) replySIDR(call string, r ibcm.SIDRReply, then state) error {
	err := id.mgr.command(func(a *ibcm.Agent, now monotime.Time) error { return a.ReplySIDR(now, id.conn, r) })
	if err != nil {
		return gaveUp(call, err)
	}
	id.state = then
	return nil
}

// Reject refuses a request, or a peer's acceptance after ConnectResponse:
// rdma_reject(3). Private data are at most 148 bytes, 136 for datagrams.
func (id *ID) Reject(private []byte) error { return id.reject("Reject", cm.RejConsumer, private) }

// RejectECE refuses as Reject does, for the sake of what the peer asks of the
// queue pair beyond the specification: rdma_reject_ece(3).
func (id *ID) RejectECE(private []byte) error {
	return id.reject("RejectECE", cm.RejVendorOption, private)
}

func (id *ID) reject(call string, why cm.Reason, private []byte) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check(call, stRequested, stReplied); err != nil {
		return err
	}
	if id.datagrams() {
		if err := checkPrivate(private, cm.SIDRREPPrivateSize); err != nil {
			return err
		}
		return id.replySIDR(call, ibcm.SIDRReply{Status: cm.SIDRRejected, PrivateData: private}, stDisconnected)
	}
	if err := checkPrivate(private, cm.REJPrivateSize); err != nil {
		return err
	}
	err := id.mgr.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.Reject(now, id.conn, why, nil, private)
	})
	if err != nil {
		return gaveUp(call, err)
	}
	id.state = stDisconnected
	return nil
}
