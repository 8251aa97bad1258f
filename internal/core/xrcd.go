// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/roce/rc"
	"verbena/internal/transport/roce"
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
	dom, err := c.host.xrc.open(c, file, info, flag)
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

func (h *xrcHost) open(c *Context, f *os.File, file os.FileInfo, flag int) (*xrcDomain, error) {
	t := roce.Of(c.eng)
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.domains, func(d *xrcDomain) bool {
		return file != nil && d.device == c.info.Name && os.SameFile(d.file, file)
	})
	switch {
	case i >= 0 && flag&os.O_EXCL != 0:
		return nil, invalid("flag", "has O_EXCL, and the domain of %s is open", file.Name())
	case i >= 0:
		h.domains[i].refs++
		return h.domains[i], nil
	}
	shared := t.NewDomain(c.info, c.counters)
	d := &xrcDomain{device: c.info.Name, file: file, refs: 1, targets: map[ib.QPN]*xrcTarget{},
		newTarget: shared.NewTarget, add: shared.Add, forget: shared.Remove, leave: shared.Leave,
		away: func(n ib.QPN, onEvent func(ib.EventType)) awayTarget {
			return shared.NewOpened(n, onEvent)
		}}
	if file != nil {
		if err := d.enter(shared, t.Shareable(), f, flag); err != nil {
			return nil, err
		}
		h.domains = append(h.domains, d)
	}
	return d, nil
}

func (h *xrcHost) close(d *xrcDomain) {
	h.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last {
		h.domains = slices.DeleteFunc(h.domains, func(o *xrcDomain) bool { return o == d })
	}
	h.mu.Unlock()
	if last {
		d.leave()
	}
}

// maxSRQN is the largest number that fits an XRCETH.
const maxSRQN ib.SRQN = 1<<24 - 1

// number gives out the number of a shared receive queue; 0 is none. No other process of this user
// gives out the same: its numbers are those of other queue pairs, too.
func (h *xrcHost) number(t *roce.Transport) (ib.SRQN, error) {
	first, last := t.Numbers()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.numbers == nil {
		h.numbers = map[ib.SRQN]struct{}{}
	}
	if len(h.numbers) > int(last-first) {
		return 0, errors.New("all numbers are taken")
	}
	for {
		if h.next++; h.next < first || h.next > last {
			h.next = first
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
	// immutable: the methods of a roce.Domain. The linker leaves them out of programs that never
	// call OpenXRCD, which have other calls of QP and Context.
	newTarget func(onEvent func(ib.EventType)) (*engine.Conn, error)
	away      func(ib.QPN, func(ib.EventType)) awayTarget
	add       func(ib.SRQN, *rc.Inbox)
	forget    func(ib.SRQN)
	leave     func()

	device string      // immutable
	file   os.FileInfo // immutable; nil of a domain that cannot be opened again
	refs   int         // guarded by xrcHost.mu

	mu      sync.RWMutex // a leaf: taken with a Conn locked
	targets map[ib.QPN]*xrcTarget
}

// enter makes the domain that of a file. Where it is not shareable, each process has its own.
func (d *xrcDomain) enter(shared *roce.Domain, shareable bool, f *os.File, flag int) (err error) {
	create := flag&os.O_CREATE != 0
	if shareable {
		err = shared.Enter(f, create, flag&os.O_EXCL != 0, d.lend)
	} else if !create {
		err = fs.ErrNotExist
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return invalid("flag", "has O_EXCL, and the domain of %s is open", f.Name())
	case errors.Is(err, fs.ErrNotExist):
		return fail(syscall.EAGAIN, "flag", "lacks O_CREATE, and no domain of %s is open",
			f.Name())
	}
	return fail(errnoOf(err, syscall.EIO), "file", "%v", err)
}

// xrcTarget is an XRC_RECV queue pair, which several QPs may stand for.
type xrcTarget struct {
	ctx  *Context // that has made it
	dom  *xrcDomain
	conn *engine.Conn
	qps  map[*QP]struct{} // guarded by dom.mu
}

// remove takes a shared receive queue away. When it returns, no target takes receives from it,
// completes for it, or reads or writes its memory.
func (d *xrcDomain) remove(n ib.SRQN) {
	d.forget(n)
	d.mu.RLock()
	targets := slices.Collect(maps.Values(d.targets))
	d.mu.RUnlock()
	for _, t := range targets {
		roce.Forget(t.conn, n)
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
	if q.ctx == nil { // lent
		q.ctx = t.ctx
	}
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
