// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// PD is a protection domain: ibv_pd. A queue pair can use memory and address handles of its own
// domain only.
type PD core.PD

// AllocPD creates a protection domain: ibv_alloc_pd(3).
func (c *Context) AllocPD() (*PD, error) {
	v, err := (*core.Context)(c).AllocPD()
	return (*PD)(v), err
}

// Context returns the context that the domain belongs to.
func (p *PD) Context() *Context { return (*Context)((*core.PD)(p).Context()) }

// Dealloc removes the domain: ibv_dealloc_pd(3). Errors: EBUSY while memory, queue pairs, shared
// receive queues or address handles belong to it.
func (p *PD) Dealloc() error { return (*core.PD)(p).Dealloc() }

// AH is an address handle, the destination of a UD message: ibv_ah.
type AH core.AH

// CreateAH creates an address handle: ibv_create_ah(3). attr must have a GRH, by which RoCE
// routes.
func (p *PD) CreateAH(attr *ib.AHAttr) (*AH, error) {
	v, err := (*core.PD)(p).CreateAH(attr)
	return (*AH)(v), err
}

// CreateAHFromWC creates an address handle of the sender of a UD message:
// ibv_create_ah_from_wc(3). grh is the first 40 bytes of the message's receive buffer. If the
// message went to a multicast group, answers go out from the port's first address of that
// family.
func (p *PD) CreateAHFromWC(wc *ib.WC, grh []byte, port int) (*AH, error) {
	v, err := (*core.PD)(p).CreateAHFromWC(wc, grh, port)
	return (*AH)(v), err
}

// Destroy removes the handle: ibv_destroy_ah(3). Messages posted with it are still sent.
func (a *AH) Destroy() error { return (*core.AH)(a).Destroy() }
