// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/roce/rc"
)

// XRCD is an XRC domain: XRC_RECV queue pairs of a domain deliver to its XRC shared receive queues,
// of any protection domain.
type XRCD struct {
	ctx   *Context
	dom   *xrcDomain
	users atomic.Int32 // queue pairs and SRQs made through this one; -1 once closed
}

// OpenXRCD opens an XRC domain: ibv_open_xrcd(3).
func (c *Context) OpenXRCD(file *os.File, flag int) (x *XRCD, err error) {
	defer func() { c.logCall("ibv_open_xrcd", err) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if _, ok := c.info.Kind.Operations(ib.QPTypeXRCSend); !ok {
		return nil, fail(syscall.EOPNOTSUPP, "XRCD", "devices of kind %v have no XRC", c.info.Kind)
	}
	if flag&^(os.O_CREATE|os.O_EXCL) != 0 {
		return nil, invalid("flag", "%#x: os.O_CREATE and os.O_EXCL are what it may be", flag)
	}
	var info os.FileInfo
	if file != nil {
		var err error
		if info, err = file.Stat(); err != nil {
			return nil, fail(errnoOf(err, syscall.EBADF), "file", "%v", err)
		}
	}
	dom, err := c.host.xrc.open(c.info.Name, info, flag)
	if err != nil {
		return nil, err
	}
	x = &XRCD{ctx: c, dom: dom}
	if err := c.keep(x); err != nil {
		c.host.xrc.close(dom)
		return nil, err
	}
	return x, nil
}

// Close closes the domain, which goes with the last that has it open: ibv_close_xrcd(3).
func (x *XRCD) Close() (err error) {
	defer func() { x.ctx.logCall("ibv_close_xrcd", err) }()
	if err := retire(&x.users, "XRCD"); err != nil {
		return err
	}
	x.leave()
	return nil
}

func (x *XRCD) leave() {
	if x.ctx.unkeep(x) {
		x.ctx.host.xrc.close(x.dom)
	}
}

// leaver is an object that Context.Close takes down, beside queue pairs and channels.
type leaver interface{ leave() }

// keep notes an object for Context.Close. It fails if that was called.
func (c *Context) keep(l leaver) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return err
	}
	c.leavers[l] = struct{}{}
	return nil
}

// unkeep takes the object off the list. It reports false to all callers but the first.
func (c *Context) unkeep(l leaver) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.leavers[l]
	delete(c.leavers, l)
	return ok
}

// xrcHost has the XRC domains of a process and the numbers of their shared receive queues.
type xrcHost struct {
	mu      sync.Mutex
	domains []*xrcDomain // those with a file
	next    ib.SRQN      // numbers rotate, so that none is reused soon
	numbers map[ib.SRQN]struct{}
}

func (h *xrcHost) open(device string, file os.FileInfo, flag int) (*xrcDomain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if file != nil {
		i := slices.IndexFunc(h.domains, func(d *xrcDomain) bool {
			return d.device == device && os.SameFile(d.file, file)
		})
		switch {
		case i >= 0 && flag&os.O_EXCL != 0:
			return nil, invalid("flag", "has O_EXCL, and the domain of %s is open", file.Name())
		case i >= 0:
			h.domains[i].refs++
			return h.domains[i], nil
		case flag&os.O_CREATE == 0:
			return nil, fail(syscall.EAGAIN, "flag",
				"lacks O_CREATE, and no domain of %s is open in this process", file.Name())
		}
	}
	d := &xrcDomain{device: device, file: file, refs: 1, inboxes: map[ib.SRQN]*rc.Inbox{},
		targets: map[ib.QPN]*xrcTarget{}}
	if file != nil {
		h.domains = append(h.domains, d)
	}
	return d, nil
}

func (h *xrcHost) close(d *xrcDomain) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.refs--; d.refs == 0 {
		h.domains = slices.DeleteFunc(h.domains, func(o *xrcDomain) bool { return o == d })
	}
}

// maxSRQN is the largest number that fits an XRCETH.
const maxSRQN ib.SRQN = 1<<24 - 1

// number gives out the number of a shared receive queue; 0 is none.
func (h *xrcHost) number() (ib.SRQN, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.numbers == nil {
		h.numbers = map[ib.SRQN]struct{}{}
	}
	if len(h.numbers) >= int(maxSRQN) {
		return 0, errors.New("all numbers are taken")
	}
	for {
		if h.next++; h.next > maxSRQN {
			h.next = 1
		}
		if _, taken := h.numbers[h.next]; !taken {
			h.numbers[h.next] = struct{}{}
			return h.next, nil
		}
	}
}

func (h *xrcHost) free(n ib.SRQN) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.numbers, n)
}

// xrcDomain is the domain that all XRCDs of a file stand for.
type xrcDomain struct {
	device string      // immutable
	file   os.FileInfo // immutable; nil of a domain that cannot be opened again
	refs   int         // guarded by xrcHost.mu

	mu      sync.RWMutex // a leaf: taken with a Conn locked
	inboxes map[ib.SRQN]*rc.Inbox
	targets map[ib.QPN]*xrcTarget
}

// xrcTarget is an XRC_RECV queue pair, which several QPs may stand for.
type xrcTarget struct {
	dom  *xrcDomain
	conn *engine.Conn
	qps  map[*QP]struct{} // guarded by dom.mu
}

// find is the look-up of a shared receive queue by a target.
func (d *xrcDomain) find(n ib.SRQN) *rc.Inbox {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.inboxes[n]
}

func (d *xrcDomain) add(n ib.SRQN, b *rc.Inbox) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inboxes[n] = b
}

// remove takes a shared receive queue away. When it returns, no target takes receives from it,
// completes for it, or reads or writes its memory.
func (d *xrcDomain) remove(n ib.SRQN) {
	d.mu.Lock()
	delete(d.inboxes, n)
	targets := slices.Collect(maps.Values(d.targets))
	d.mu.Unlock()
	for _, t := range targets {
		t.conn.Lock()
		t.conn.Machine().(*rc.QP).Forget(n)
		t.conn.Unlock()
	}
}

// join makes q another QP that stands for the target of a number.
func (d *xrcDomain) join(qpn ib.QPN, q *QP) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.targets[qpn]
	if t == nil {
		return false
	}
	t.qps[q] = struct{}{}
	q.target, q.conn = t, t.conn
	return true
}

// part takes q off its target. It reports whether q was the last.
func (t *xrcTarget) part(q *QP) bool {
	t.dom.mu.Lock()
	defer t.dom.mu.Unlock()
	delete(t.qps, q)
	if len(t.qps) > 0 {
		return false
	}
	delete(t.dom.targets, t.conn.QPN())
	return true
}

// event raises an event of the target on each QP that stands for it.
func (t *xrcTarget) event(e ib.EventType) {
	t.dom.mu.RLock()
	qps := slices.Collect(maps.Keys(t.qps))
	t.dom.mu.RUnlock()
	for _, q := range qps {
		q.event(e)
	}
}
