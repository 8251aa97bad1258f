// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// QPInitAttr has the attributes that a queue pair is created with: ibv_qp_init_attr.
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

// core returns the attributes in the type of package core, nil for nil.
func (a *QPInitAttr) core() *core.QPInitAttr {
	if a == nil {
		return nil
	}
	return &core.QPInitAttr{Type: a.Type, SendCQ: (*core.CQ)(a.SendCQ),
		RecvCQ: (*core.CQ)(a.RecvCQ), SRQ: (*core.SRQ)(a.SRQ), XRCD: (*core.XRCD)(a.XRCD),
		Cap: a.Cap, SignalAll: a.SignalAll}
}

// QP is a queue pair: ibv_qp.
type QP core.QP

// CreateQP creates a queue pair in the state RESET: ibv_create_qp(3). Queues are exactly as
// large as attr.Cap asks. With an SRQ the receive sizes are ignored. An XRC_SEND queue pair has
// no receives: RecvCQ, SRQ and the receive sizes are ignored. XRCD.CreateQP creates XRC_RECV
// queue pairs.
//
// Errors: EINVAL names the attribute that is out of range; ENOMEM if no queue pair number is
// left.
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

// PD returns the protection domain, nil for an XRC_RECV queue pair.
func (q *QP) PD() *PD { return (*PD)((*core.QP)(q).PD()) }

// State returns the current state.
func (q *QP) State() ib.QPState { return (*core.QP)(q).State() }

// Query returns the queue pair's attributes, and those that it was created with:
// ibv_query_qp(3). Receive sizes are 0 with an SRQ, and for XRC.
func (q *QP) Query() (ib.QPAttr, QPInitAttr) {
	(*core.QP)(q).Context().LogQuery("ibv_query_qp", nil)
	a, init := (*core.QP)(q).Query()
	return a, QPInitAttr{Type: init.Type, SendCQ: (*CQ)(init.SendCQ), RecvCQ: (*CQ)(init.RecvCQ),
		SRQ: (*SRQ)(init.SRQ), XRCD: (*XRCD)(init.XRCD), Cap: init.Cap, SignalAll: init.SignalAll}
}

// Modify changes attributes and state: ibv_modify_qp(3). The man page's table of required and
// optional attributes applies. The package comment says what iWARP allows. A change to RESET
// also removes the queue pair's completions that were not polled. After an error nothing has
// changed.
//
// Errors: EINVAL names the attribute that is missing, not allowed or out of range; EADDRINUSE if
// port 4791 is not available at the address of the GID index.
func (q *QP) Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error {
	return (*core.QP)(q).Modify(attr, mask)
}

// Destroy removes the queue pair: ibv_destroy_qp(3). Outstanding work requests have no
// completions. Completions that were not polled are removed, too.
//
// Errors: EBUSY while it is attached to a multicast group, or has flows.
func (q *QP) Destroy() error { return (*core.QP)(q).Destroy() }

// AttachMulticast makes a UD queue pair receive messages to a multicast group:
// ibv_attach_mcast(3). Such messages are sent to QPN 0xffffff. A queue pair that is attached
// twice gets one copy.
//
// Errors: EINVAL if the queue pair is not UD, or gid is no multicast address; the system's error
// if the interface cannot join the group.
func (q *QP) AttachMulticast(gid ib.GID) error { return (*core.QP)(q).AttachMulticast(gid) }

// DetachMulticast undoes AttachMulticast: ibv_detach_mcast(3).
func (q *QP) DetachMulticast(gid ib.GID) error { return (*core.QP)(q).DetachMulticast(gid) }
