// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"
	"runtime/trace"

	"verbena/ib"
	"verbena/internal/core"
)

// SRQ is a shared receive queue, from which several queue pairs take receives: ibv_srq.
type SRQ core.SRQ

// CreateSRQ creates a shared receive queue: ibv_create_srq(3). It ignores attr.SRQLimit; Modify
// arms the limit.
func (p *PD) CreateSRQ(attr ib.SRQAttr) (*SRQ, error) {
	v, err := (*core.PD)(p).CreateSRQ(attr, nil)
	return (*SRQ)(v), err
}

// CreateXRCSRQ creates a shared receive queue of an XRC domain: ibv_create_srq_ex(3). XRC_RECV
// queue pairs of the domain use it for requests that name its number. They take receives from
// it, complete them on cq, and look up the requests' keys in this protection domain.
func (p *PD) CreateXRCSRQ(attr ib.SRQAttr, xrcd *XRCD, cq *CQ) (*SRQ, error) {
	v, err := (*core.PD)(p).CreateXRCSRQ(attr, (*core.XRCD)(xrcd), (*core.CQ)(cq), nil)
	return (*SRQ)(v), err
}

// Num returns the number by which XRC_SEND work requests of a peer name the queue:
// ibv_get_srq_num(3). It is 0 for a queue without an XRC domain.
func (s *SRQ) Num() ib.SRQN { return (*core.SRQ)(s).Num() }

// PostRecv posts receive work requests, as QP.PostRecv does: ibv_post_srq_recv(3).
func (s *SRQ) PostRecv(wrs ...RecvWR) (posted int, err error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(context.Background(), "verbs.SRQ.PostRecv").End()
	}
	return (*core.SRQ)(s).PostRecv(coreRecvs(wrs))
}

// Modify changes the size, or arms the limit event: ibv_modify_srq(3). After an error nothing
// has changed.
func (s *SRQ) Modify(attr ib.SRQAttr, mask ib.SRQAttrMask) error {
	return (*core.SRQ)(s).Modify(attr, mask)
}

// Query returns the size and the armed limit: ibv_query_srq(3).
func (s *SRQ) Query() ib.SRQAttr {
	(*core.SRQ)(s).LogQuery()
	return (*core.SRQ)(s).Query()
}

// Destroy removes the queue: ibv_destroy_srq(3). Requests that name an XRC queue are refused
// from then on, and a message that has arrived in part makes no completion. Errors: EBUSY while
// a queue pair uses it.
func (s *SRQ) Destroy() error { return (*core.SRQ)(s).Destroy() }

// CreateTagSRQ creates a shared receive queue that matches tags: ibv_create_srq_ex(3). RC queue
// pairs of the protection domain can use it. All receives of theirs complete on cq, whatever their
// QPInitAttr.RecvCQ.
//
// Each message to them begins with a header, as in infiniband/tm_types.h. PostOps adds receives for
// tags; they get the data behind the header. PostRecv posts receives for messages that match no
// tag; those get the whole message.
//
// A rendezvous names memory of its sender. If a queue pair has QPCap.MaxSendWR 0, the device READs
// that into the tagged receive, and sends a FIN. Else the completion's status is
// WCTMRndvIncomplete, the receive has the headers, and the application is to READ.
//
// Errors: EOPNOTSUPP of devices that do not speak RoCEv2.
func (p *PD) CreateTagSRQ(attr ib.SRQAttr, tm ib.TMAttr, cq *CQ) (*SRQ, error) {
	v, err := (*core.PD)(p).CreateTagSRQ(attr, tm, (*core.CQ)(cq), nil)
	return (*SRQ)(v), err
}

// PostOps carries out operations on the tagged receives of a queue of CreateTagSRQ, in order, and
// sets the handles of those that it adds: ibv_post_srq_ops(3). Pass a slice, as wrs..., to read
// them. An operation is done when PostOps
// returns, also if its completion is polled later. Errors: ENOMEM if there are as many tagged
// receives as the queue takes.
func (s *SRQ) PostOps(wrs ...ib.TagWR) (posted int, err error) {
	return (*core.SRQ)(s).PostOps(wrs)
}
