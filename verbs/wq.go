// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// WQInitAttr has the attributes that a work queue is created with: ibv_wq_init_attr.
type WQInitAttr struct {
	CQ     *CQ
	MaxWR  uint32
	MaxSGE uint32
}

// WQ is a work queue: receives for the frames that queue pairs spread: ibv_wq.
type WQ core.WQ

// CreateWQ creates a work queue in the state RESET: ibv_create_wq(3).
//
// Errors: EINVAL names the attribute that is out of range; EPERM without CAP_NET_RAW; EOPNOTSUPP on
// devices without raw packet queue pairs.
func (p *PD) CreateWQ(attr *WQInitAttr) (*WQ, error) {
	if attr == nil {
		w, err := (*core.PD)(p).CreateWQ(nil)
		return (*WQ)(w), err
	}
	w, err := (*core.PD)(p).CreateWQ(&core.WQInitAttr{CQ: (*core.CQ)(attr.CQ), MaxWR: attr.MaxWR,
		MaxSGE: attr.MaxSGE})
	return (*WQ)(w), err
}

// Num returns the number of the work queue, which its completions carry as QPN.
func (w *WQ) Num() ib.QPN { return (*core.WQ)(w).Num() }

// State returns the current state.
func (w *WQ) State() ib.WQState { return (*core.WQ)(w).State() }

// Modify changes the state: ibv_modify_wq(3). A work queue in WQErr flushes its receives, and
// becomes ready by way of WQReset. Errors: EINVAL.
func (w *WQ) Modify(to ib.WQState) error { return (*core.WQ)(w).Modify(to) }

// PostRecv posts receives in order: ibv_post_wq_recv(3). It returns how many it posted. Errors:
// EINVAL in WQReset, or for a list that is too long; ENOMEM if the queue is full.
func (w *WQ) PostRecv(wrs ...RecvWR) (posted int, err error) {
	return (*core.WQ)(w).PostRecv(coreRecvs(wrs))
}

// Destroy removes the work queue: ibv_destroy_wq(3). Errors: EBUSY while it is in a table.
func (w *WQ) Destroy() error { return (*core.WQ)(w).Destroy() }

// RWQTable is an indirection table: the work queues that frames are spread over.
type RWQTable core.RWQTable

// CreateRWQTable makes an indirection table of a power of two of work queues, which need not
// differ: ibv_create_rwq_ind_table(3). Errors: EINVAL.
func (c *Context) CreateRWQTable(wqs ...*WQ) (*RWQTable, error) {
	var list []*core.WQ
	for _, w := range wqs {
		list = append(list, (*core.WQ)(w))
	}
	t, err := (*core.Context)(c).CreateRWQTable(list)
	return (*RWQTable)(t), err
}

// Destroy removes the table: ibv_destroy_rwq_ind_table(3). Errors: EBUSY while it has a queue pair.
func (t *RWQTable) Destroy() error { return (*core.RWQTable)(t).Destroy() }

// RSSInitAttr has the attributes of a queue pair that spreads frames: ibv_rx_hash_conf, and the
// table.
type RSSInitAttr struct {
	Table  *RWQTable
	Key    []byte // of the Toeplitz hash: 40 bytes
	Fields ib.RXHashFields
}

// CreateRSSQP makes a raw packet queue pair that spreads the frames of its flows over work queues:
// ibv_create_qp_ex(3). The low bits of a frame's hash are the place in the table; frames without
// the fields go to the first place. The queue pair has no states and no queues.
//
// Errors: EINVAL names the attribute; EPERM without CAP_NET_RAW.
func (p *PD) CreateRSSQP(attr *RSSInitAttr) (*QP, error) {
	if attr == nil {
		q, err := (*core.PD)(p).CreateRSSQP(nil)
		return (*QP)(q), err
	}
	q, err := (*core.PD)(p).CreateRSSQP(&core.RSSInitAttr{Table: (*core.RWQTable)(attr.Table),
		Key: attr.Key, Fields: attr.Fields})
	return (*QP)(q), err
}
