// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/mem"
)

// PD is a protection domain: memory and queue pairs of different domains do not mix.
type PD struct {
	ctx   *Context
	num   mem.PD
	users atomic.Int32 // objects in the domain; -1 once deallocated
}

// AllocPD creates a protection domain: ibv_alloc_pd(3).
func (c *Context) AllocPD() (p *PD, err error) {
	defer func() { c.logCall("ibv_alloc_pd", err) }()
	p = &PD{ctx: c, num: mem.PD(c.pds.Add(1))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return nil, err
	}
	c.domains[p.num] = p
	return p, nil
}

// Context returns the context the domain belongs to.
func (p *PD) Context() *Context { return p.ctx }

// Dealloc removes the domain: ibv_dealloc_pd(3).
func (p *PD) Dealloc() (err error) {
	defer func() { p.ctx.logCall("ibv_dealloc_pd", err) }()
	if err := retire(&p.users, "PD"); err != nil {
		return err
	}
	p.ctx.mu.Lock()
	defer p.ctx.mu.Unlock()
	delete(p.ctx.domains, p.num)
	return nil
}

// retire marks an object as destroyed, unless it has users.
func retire(users *atomic.Int32, what string) error {
	if users.CompareAndSwap(0, -1) {
		return nil
	}
	if n := users.Load(); n > 0 {
		return fail(syscall.EBUSY, what, "is still used by %d objects", n)
	}
	return invalid(what, "was destroyed before")
}

// users returns how many users an object has, none once it is destroyed.
func users(n *atomic.Int32) int { return int(max(0, n.Load())) }

// use counts another user of an object, unless it is destroyed.
func use(users *atomic.Int32, what string) error {
	for {
		n := users.Load()
		if n < 0 {
			return invalid(what, "was destroyed")
		}
		if users.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// AH is an address handle: where a UD message goes.
type AH struct {
	pd   *PD
	attr ib.AHAttr
	gone atomic.Bool
}

// CreateAH makes an address handle: ibv_create_ah(3).
func (p *PD) CreateAH(attr *ib.AHAttr) (a *AH, err error) {
	defer func() { p.ctx.logCall("ibv_create_ah", err, "to", a) }()
	if attr == nil {
		return nil, invalid("attr", "is missing")
	}
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if !p.ctx.info.Kind.HasAHs() {
		return nil, fail(syscall.EOPNOTSUPP, "AH",
			"devices of kind %v have no datagrams", p.ctx.info.Kind)
	}
	l, err := p.ctx.limits(ib.QPAV)
	if err != nil {
		return nil, err
	}
	if err := device.CheckAH(attr, &l); err != nil {
		return nil, err
	}
	if err := p.ctx.listenAt(int(attr.GRH.SGIDIndex), l.GIDs[attr.GRH.SGIDIndex]); err != nil {
		return nil, err
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	return &AH{pd: p, attr: *attr}, nil
}

// CreateAHFromWC makes an address handle that answers a received UD message; grh is the first 40
// bytes of its receive buffer.
func (p *PD) CreateAHFromWC(wc *ib.WC, grh []byte, port int) (*AH, error) {
	if wc == nil || wc.Flags&ib.WCGRH == 0 {
		return nil, invalid("wc", "has no GRH to answer to")
	}
	src, dst, tclass, flow, ok := parseGRH(grh)
	if !ok {
		return nil, invalid("grh", "is not the first 40 bytes of a UD receive buffer")
	}
	gids, err := p.ctx.GIDTable(port)
	if err != nil {
		return nil, err
	}
	for _, g := range gids {
		if g.GID == dst || dst.IsMulticast() && g.GID.Addr().Is4() == dst.Addr().Is4() {
			return p.CreateAH(&ib.AHAttr{IsGlobal: true, PortNum: uint8(port), SL: wc.SL,
				GRH: ib.GRH{DGID: src, SGIDIndex: uint8(g.Index), TrafficClass: tclass,
					FlowLabel: flow}})
		}
	}
	return nil, invalid("grh", "destination %v is not in the GID table", dst)
}

// Destroy removes the handle: ibv_destroy_ah(3).
func (a *AH) Destroy() (err error) {
	defer func() { a.pd.ctx.logCall("ibv_destroy_ah", err, "to", a) }()
	if a.gone.Swap(true) {
		return invalid("AH", "was destroyed before")
	}
	a.pd.users.Add(-1)
	return nil
}

// parseGRH reads the 40 bytes before a UD message: an IPv6 header, or an IPv4
// header in the last 20 bytes. Spec: IBTA A17.4.5.1.
func parseGRH(b []byte) (src, dst ib.GID, tclass uint8, flow uint32, ok bool) {
	if len(b) < 40 {
		return
	}
	if b[0]>>4 == 6 {
		copy(src[:], b[8:24])
		copy(dst[:], b[24:40])
		return src, dst, b[0]<<4 | b[1]>>4,
			uint32(b[1]&15)<<16 | uint32(b[2])<<8 | uint32(b[3]), true
	}
	v4 := b[20:40]
	if v4[0]>>4 != 4 {
		return
	}
	src[10], src[11], dst[10], dst[11] = 0xff, 0xff, 0xff, 0xff
	copy(src[12:], v4[12:16])
	copy(dst[12:], v4[16:20])
	return src, dst, v4[1], 0, true
}
