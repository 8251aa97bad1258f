// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// accept answers with a REP, or for datagrams with a SIDR_REP.
func (c *ibConnector) accept(p *ConnParam) error {
	if c.datagrams() {
		return c.acceptUD(p)
	}
	if err := checkPrivate(p.PrivateData, cm.REPPrivateSize); err != nil {
		return err
	}
	if err := checkRetries(p); err != nil {
		return err
	}
	qpn, srq, _, err := c.endpoint(p)
	if err != nil {
		return err
	}
	rep := ibcm.AcceptParams{
		QPN: qpn, PSN: c.psn, ResponderResources: depth(p.ResponderResources,
			c.params.MaxDestRdAtomic),
		InitiatorDepth: depth(p.InitiatorDepth, c.params.MaxRdAtomic), FlowControl: p.FlowControl,
		RNRRetryCount: p.RNRRetryCount, SRQ: srq, ECE: p.ECE,
		PrivateData: p.PrivateData,
	}
	c.params.MaxDestRdAtomic, c.params.MaxRdAtomic = rep.ResponderResources, rep.InitiatorDepth
	if err := c.readyQP(); err != nil {
		if c.closed() { // a link that is lost takes its queue pairs with the request
			return errGaveUp("Accept")
		}
		return err
	}
	err = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.Accept(now, c.conn, rep)
	})
	if err != nil {
		_ = c.failQP() // the error that counts is the peer's
		return gaveUp("Accept", err)
	}
	return nil
}

// gaveUp turns an agent's refusal into the application's error: the peer has ended the request in
// the meantime.
func gaveUp(call string, err error) error {
	var wrong *ibcm.StateError
	if errors.As(err, &wrong) {
		return errGaveUp(call)
	}
	return err
}

func errGaveUp(call string) error { return fail(syscall.ECONNRESET, call, "the peer has given up") }

// closed reports whether the agent has ended the connection.
func (c *ibConnector) closed() bool {
	c.ib.m.mu.Lock()
	defer c.ib.m.mu.Unlock()
	state, err := c.ib.agent.State(c.conn)
	return err != nil || state == ibcm.Closed
}

// acceptUD answers with the queue pair that serves the port.
func (c *ibConnector) acceptUD(p *ConnParam) error {
	if err := checkPrivate(p.PrivateData, cm.SIDRREPPrivateSize); err != nil {
		return err
	}
	qpn := p.QPN
	if c.qp != nil {
		qpn = c.qp.QPN()
	}
	if qpn <= ib.QP1 || qpn >= ib.QPMulticast {
		return invalid("QPN", "%v: the ID has no queue pair, so name one", qpn)
	}
	return c.replySIDR("Accept", ibcm.SIDRReply{QPN: qpn, QKey: UDQKey, PrivateData: p.PrivateData})
}

func (c *ibConnector) replySIDR(call string, r ibcm.SIDRReply) error {
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.ReplySIDR(now, c.conn, r)
	})
	if err != nil {
		return gaveUp(call, err)
	}
	return nil
}

func (c *ibConnector) reject(call string, ece bool, private []byte) error {
	if c.datagrams() {
		if err := checkPrivate(private, cm.SIDRREPPrivateSize); err != nil {
			return err
		}
		return c.replySIDR(call, ibcm.SIDRReply{Status: cm.SIDRRejected, PrivateData: private})
	}
	if err := checkPrivate(private, cm.REJPrivateSize); err != nil {
		return err
	}
	why := cm.RejConsumer
	if ece {
		why = cm.RejVendorOption
	}
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.Reject(now, c.conn, why, nil, private)
	})
	if err != nil {
		return gaveUp(call, err)
	}
	return nil
}
