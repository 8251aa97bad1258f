// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// QPInitAttr is what a queue pair is made from: ibv_qp_init_attr.
type QPInitAttr struct {
	Type   ib.QPType
	SendCQ *CQ
	RecvCQ *CQ
	SRQ    *SRQ  // receives come from here instead of a receive queue of its own
	XRCD   *XRCD // XRC_RECV: the domain it delivers in
	Cap    ib.QPCap
	// SignalAll makes every send work request complete on success, not only
	// those with SendSignaled: sq_sig_all.
	SignalAll bool
}

// core returns the attributes as package core has them, nil for nil.
func (a *QPInitAttr) core() *core.QPInitAttr {
	if a == nil {
		return nil
	}
	return &core.QPInitAttr{Type: a.Type, SendCQ: (*core.CQ)(a.SendCQ), RecvCQ: (*core.CQ)(a.RecvCQ), SRQ: (*core.SRQ)(a.SRQ), XRCD: (*core.XRCD)(a.XRCD), Cap: a.Cap, SignalAll: a.SignalAll}
}

// QP is a queue pair: ibv_qp.
type QP core.QP

// CreateQP creates a queue pair in the RESET state: ibv_create_qp(3). Queues
// are exactly as large as attr.Cap asks, never larger; with an SRQ the receive
// sizes are ignored. An XRC_SEND queue pair has no receives: RecvCQ, SRQ and
// the receive sizes are ignored. XRC_RECV is XRCD.CreateQP.
//
// Errors: EINVAL names the attribute that is out of range; ENOMEM if no queue
// pair number is left.
func (p *PD) CreateQP(attr *QPInitAttr) (*QP, error) {
	v, err := (*core.PD)(p).CreateQP(attr.core())
	return (*QP)(v), err
}

// QPN returns the queue pair's number.
func (q *QP) QPN() ib.QPN { return (*core.QP)(q).QPN() }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return (*core.QP)(q).Type() }

// Context returns the device context.
func (q *QP) Context() *Context { return (*Context)((*core.QP)(q).Context()) }

// PD returns the protection domain, nil of an XRC_RECV queue pair.
func (q *QP) PD() *PD { return (*PD)((*core.QP)(q).PD()) }

// State returns the current state.
func (q *QP) State() ib.QPState { return (*core.QP)(q).State() }

// Query returns the attributes of the queue pair and what it was made from:
// ibv_query_qp(3). Receive sizes are 0 with an SRQ, and for XRC.
func (q *QP) Query() (ib.QPAttr, QPInitAttr) {
	a, init := (*core.QP)(q).Query()
	return a, QPInitAttr{Type: init.Type, SendCQ: (*CQ)(init.SendCQ), RecvCQ: (*CQ)(init.RecvCQ), SRQ: (*SRQ)(init.SRQ), XRCD: (*XRCD)(init.XRCD), Cap: init.Cap, SignalAll: init.SignalAll}
}

// Modify changes attributes and state: ibv_modify_qp(3), whose table of
// required and optional attributes holds; that of iWARP is in the package
// comment. On error nothing changed. Going to RESET also removes the queue pair's completions that were not polled yet.
//
// Errors: EINVAL names the attribute that is missing, not taken or out of
// range; EADDRINUSE if port 4791 cannot be had on the address of the GID index.
func (q *QP) Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error {
	return (*core.QP)(q).Modify(attr, mask)
}

// Destroy removes the queue pair, also with work outstanding, whose
// completions do not come any more: ibv_destroy_qp(3). Completions that are in
// the queues already are removed, too.
//
// Errors: EBUSY while it is attached to a multicast group.
func (q *QP) Destroy() error { return (*core.QP)(q).Destroy() }

// AttachMulticast makes a UD queue pair receive what is sent to a multicast
// group: ibv_attach_mcast(3). Messages to a group go to QPN 0xffffff. Attached
// twice it still gets one copy.
//
// Errors: EINVAL if the queue pair is not UD or gid no multicast address; the
// system's error if the interface cannot join the group.
func (q *QP) AttachMulticast(gid ib.GID) error { return (*core.QP)(q).AttachMulticast(gid) }

// DetachMulticast undoes AttachMulticast: ibv_detach_mcast(3).
func (q *QP) DetachMulticast(gid ib.GID) error { return (*core.QP)(q).DetachMulticast(gid) }
