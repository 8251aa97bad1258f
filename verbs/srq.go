// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// SRQ is a shared receive queue: receives that several queue pairs take from.
// ibv_srq.
type SRQ core.SRQ

// CreateSRQ creates a shared receive queue: ibv_create_srq(3). attr.SRQLimit
// is ignored: arm it with Modify.
func (p *PD) CreateSRQ(attr ib.SRQAttr) (*SRQ, error) {
	v, err := (*core.PD)(p).CreateSRQ(attr, nil)
	return (*SRQ)(v), err
}

// CreateXRCSRQ creates a shared receive queue of an XRC domain:
// ibv_create_srq_ex(3). XRC_RECV queue pairs of the domain take receives from
// it for requests that name its number, complete them on cq, and look the
// requests' keys up in this protection domain.
func (p *PD) CreateXRCSRQ(attr ib.SRQAttr, xrcd *XRCD, cq *CQ) (*SRQ, error) {
	v, err := (*core.PD)(p).CreateXRCSRQ(attr, (*core.XRCD)(xrcd), (*core.CQ)(cq), nil)
	return (*SRQ)(v), err
}

// Num returns the number by which a peer's XRC_SEND work requests name the
// queue, 0 unless it is of an XRC domain: ibv_get_srq_num(3).
func (s *SRQ) Num() ib.SRQN { return (*core.SRQ)(s).Num() }

// PostRecv posts receive work requests: ibv_post_srq_recv(3). As QP.PostRecv.
func (s *SRQ) PostRecv(wrs ...RecvWR) (posted int, err error) {
	return (*core.SRQ)(s).PostRecv(coreRecvs(wrs))
}

// Modify changes the size or arms the limit event: ibv_modify_srq(3). On error
// nothing changed.
func (s *SRQ) Modify(attr ib.SRQAttr, mask ib.SRQAttrMask) error {
	return (*core.SRQ)(s).Modify(attr, mask)
}

// Query returns size and armed limit: ibv_query_srq(3).
func (s *SRQ) Query() ib.SRQAttr { return (*core.SRQ)(s).Query() }

// Destroy removes the queue: ibv_destroy_srq(3). Of an XRC queue, whose
// requests are refused from now on, a message that has come in part makes no
// completion. Errors: EBUSY while a queue pair uses it.
func (s *SRQ) Destroy() error { return (*core.SRQ)(s).Destroy() }
