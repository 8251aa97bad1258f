// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// PD is a protection domain: memory and queue pairs of different domains do
// not mix. ibv_pd.
type PD core.PD

// AllocPD creates a protection domain: ibv_alloc_pd(3).
func (c *Context) AllocPD() (*PD, error) {
	v, err := (*core.Context)(c).AllocPD()
	return (*PD)(v), err
}

// Context returns the context the domain belongs to.
func (p *PD) Context() *Context { return (*Context)((*core.PD)(p).Context()) }

// Dealloc removes the domain: ibv_dealloc_pd(3). Errors: EBUSY while memory,
// queue pairs, shared receive queues or address handles are in it.
func (p *PD) Dealloc() error { return (*core.PD)(p).Dealloc() }

// AH is an address handle: where a UD message goes. ibv_ah.
type AH core.AH

// CreateAH makes an address handle: ibv_create_ah(3). The GRH must be given,
// as RoCE routes by it.
func (p *PD) CreateAH(attr *ib.AHAttr) (*AH, error) {
	v, err := (*core.PD)(p).CreateAH(attr)
	return (*AH)(v), err
}

// CreateAHFromWC makes an address handle that answers a received UD message;
// grh is the first 40 bytes of its receive buffer. ibv_create_ah_from_wc(3). A
// message to a multicast group is answered from the first address of its family.
func (p *PD) CreateAHFromWC(wc *ib.WC, grh []byte, port int) (*AH, error) {
	v, err := (*core.PD)(p).CreateAHFromWC(wc, grh, port)
	return (*AH)(v), err
}

// Destroy removes the handle: ibv_destroy_ah(3). Messages posted with it still
// go out.
func (a *AH) Destroy() error { return (*core.AH)(a).Destroy() }
