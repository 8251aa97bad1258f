// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/transport"
	"verbena/internal/transport/raw"
	"verbena/internal/transport/roce"
)

// QPInitAttr has the attributes of a new queue pair: ibv_qp_init_attr.
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

	// Outside, if not nil, is the queue into which the C library posts receives by itself. PostRecv
	// is refused then.
	Outside *queue.OutsideRecvQueue
}

// QP is a queue pair: ibv_qp.
type QP struct {
	// immutable after CreateQP
	ctx    *Context
	pd     *PD // nil for XRC_RECV
	init   QPInitAttr
	conn   *engine.Conn
	target *xrcTarget         // XRC_RECV: the target that it stands for, maybe with others
	away   awayTarget         // XRC_RECV: that target if it is another process's: no conn
	lentTo func(ib.EventType) // XRC_RECV: takes the events to a QP of another process
	mute   string             // why it takes no sends, "" if it does
	ops    uint64             // that may be posted: opBits
	sq     *queue.SendQueue
	rq     *queue.RecvQueue // nil with an SRQ, for XRC, and where another posts

	// guarded by the connection's lock
	sent      mem.LastKey // of a short message
	submitted uint64      // the send queue's tail when work was last submitted

	modifyMu sync.Mutex  // one Modify at a time
	cntrs    []*CompCntr // guarded by modifyMu: attached
	counted  compCounters
	gone     atomic.Bool
	addrs    atomic.Pointer[[]netip.AddrPort] // UD: source address and port by GID index
	mcast    mcastMemberships
	flows    atomic.Int32
	spreads  *RWQTable // over its work queues; nil unless by CreateRSSQP
}

// CreateQP creates a queue pair in the RESET state: ibv_create_qp(3).
func (p *PD) CreateQP(attr *QPInitAttr) (q *QP, err error) {
	defer func() { p.ctx.logCall("ibv_create_qp", err, "qp", q) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if attr == nil {
		return nil, invalid("attr", "is missing")
	}
	if attr.Type == ib.QPTypeXRCRecv {
		if attr.XRCD == nil || attr.XRCD.ctx != p.ctx {
			return nil, invalid("attr.XRCD", "must be an XRC domain of this context")
		}
		return attr.XRCD.createQP(attr)
	}
	if attr.Type == ib.QPTypeXRCSend {
		sends := *attr
		sends.RecvCQ, sends.SRQ, sends.XRCD = nil, nil, nil
		sends.Cap.MaxRecvWR, sends.Cap.MaxRecvSGE = 0, 0
		attr = &sends
	}
	if err := checkInit(p.ctx, attr); err != nil {
		return nil, err
	}
	if attr.SRQ != nil && attr.SRQ.tags != nil && attr.SRQ.pd != p {
		return nil, invalid("attr.SRQ", "matches tags and is of another protection domain")
	}
	return p.newQP(attr)
}

// enlist notes a new queue pair for Context.Close, or takes it down again if
// that was called meanwhile.
func (q *QP) enlist() error {
	c := q.ctx
	c.mu.Lock()
	closed := c.closed.Load()
	if !closed {
		c.qps[q] = struct{}{}
		if q.away == nil {
			c.host.numbered.Store(q.QPN(), q)
		}
	}
	c.mu.Unlock()
	if closed {
		q.destroy()
	}
	return c.alive()
}

// checkInit refuses attributes that no queue pair of the context has.
func checkInit(c *Context, a *QPInitAttr) error {
	if err := checkType(c, a.Type); err != nil {
		return err
	}
	if a.SendCQ == nil || a.SendCQ.ctx != c {
		return invalid("attr.SendCQ", "must be a completion queue of this context")
	}
	if a.Type != ib.QPTypeXRCSend {
		if a.RecvCQ == nil || a.RecvCQ.ctx != c {
			return invalid("attr.RecvCQ", "must be a completion queue of this context")
		}
		if err := checkSRQ(c, a); err != nil {
			return err
		}
	}
	return nil
}

func checkType(c *Context, t ib.QPType) error {
	if _, ok := c.info.Kind.Operations(t); ok {
		return nil
	}
	if _, ok := c.info.Kind.Operations(ib.QPTypeUD); !ok {
		return fail(syscall.EOPNOTSUPP, "attr.Type",
			"%v: devices of kind %v have RC queue pairs only", t, c.info.Kind)
	}
	return fail(syscall.EOPNOTSUPP, "attr.Type",
		"%v (%d): RC, UC, UD, XRC and RAW_PACKET are supported", t, t)
}

func checkSRQ(c *Context, a *QPInitAttr) error {
	switch {
	case a.SRQ == nil:
	case a.SRQ.pd.ctx != c:
		return invalid("attr.SRQ", "belongs to another context")
	case a.SRQ.xrcd != nil:
		return invalid("attr.SRQ", "is of an XRC domain: XRC_RECV queue pairs take from it")
	case a.Type == ib.QPTypeUC:
		return invalid("attr.SRQ", "does not go with UC queue pairs")
	case a.SRQ.tags != nil && a.Type != ib.QPTypeRC:
		return invalid("attr.SRQ", "matches tags: only RC queue pairs take from it")
	}
	return nil
}

func checkCap(a *QPInitAttr) error {
	recv := a.Cap
	if a.SRQ != nil { // Source: ibv_create_qp(3): ignored with an SRQ
		recv = ib.QPCap{}
	}
	for _, r := range []struct {
		arg string
		v   uint32
		max int
	}{
		{"attr.Cap.MaxSendWR", a.Cap.MaxSendWR, device.MaxQPWR},
		{"attr.Cap.MaxRecvWR", recv.MaxRecvWR, device.MaxQPWR},
		{"attr.Cap.MaxSendSGE", a.Cap.MaxSendSGE, ib.MaxSGE},
		{"attr.Cap.MaxRecvSGE", recv.MaxRecvSGE, ib.MaxSGE},
		{"attr.Cap.MaxInlineData", a.Cap.MaxInlineData, device.MaxInline},
	} {
		if r.v > uint32(r.max) {
			return invalid(r.arg, "%d is more than the device's %d", r.v, r.max)
		}
	}
	return nil
}

// useAll counts a new queue pair at all objects that it uses, or at none.
func useAll(p *PD, a *QPInitAttr) (undo func(), err error) {
	var taken []*atomic.Int32
	undo = func() {
		for _, u := range taken {
			u.Add(-1)
		}
	}
	take := func(u *atomic.Int32, what string) {
		if err == nil {
			if err = use(u, what); err == nil {
				taken = append(taken, u)
			}
		}
	}
	take(&p.users, "PD")
	if a.SendCQ != nil {
		take(&a.SendCQ.users, "attr.SendCQ")
	}
	if a.RecvCQ != nil {
		take(&a.RecvCQ.users, "attr.RecvCQ")
	}
	if a.SRQ != nil {
		take(&a.SRQ.users, "attr.SRQ")
	}
	if err != nil {
		undo()
	}
	return undo, err
}

// newConn gives the queue pair its number and the transport of its device.
func (q *QP) newConn() (*engine.Conn, error) {
	c := q.ctx
	spec := engine.QPSpec{Type: q.init.Type, Counters: c.counters, OnEvent: q.event,
		Config: q.config, MTU: c.info.PortAttr().ActiveMTU.Bytes(), Source: q.sourceOf,
		Device: c.back.handle(), Interface: c.info.Index,
		Lane: q.lane()}
	return transport.For(c.info.Kind, q.init.Type).NewConn(c.eng, &spec)
}

// connError returns the reason for which newConn failed, as an error of verbs.
func (q *QP) connError(err error) error {
	switch {
	case q.init.Type != ib.QPTypeRawPacket:
	case errors.Is(err, syscall.EPERM):
		return fail(syscall.EPERM, "attr.Type", "RAW_PACKET queue pairs need CAP_NET_RAW")
	case errors.Is(err, errors.ErrUnsupported):
		return fail(syscall.EOPNOTSUPP, "attr.Type", "RAW_PACKET: only Linux has packet sockets")
	case errors.Is(err, raw.ErrNoFrames):
		return fail(syscall.EOPNOTSUPP, "attr.Type", "RAW_PACKET: %v", err)
	}
	return fail(errnoOf(err, syscall.ENOMEM), "QP", "%v", err)
}

// config returns the configuration of the protocol machine for a number.
func (q *QP) config(qpn ib.QPN) qp.Config {
	a := &q.init
	q.sq = queue.NewSendQueue(int(a.Cap.MaxSendWR), int(a.Cap.MaxSendSGE), int(a.Cap.MaxInlineData))
	cfg := qp.Config{
		QPN: qpn, PD: q.pd.num, Mem: q.ctx.keys, SQ: q.sq,
		SendCQ: completer{a.SendCQ}, RecvCQ: completer{a.RecvCQ}, SignalAll: a.SignalAll,
		OnViolation: q.ctx.counters.Violation, Counter: &q.counted,
	}
	switch {
	case a.Type == ib.QPTypeXRCSend:
	case a.SRQ != nil:
		cfg.RQ, cfg.SRQ, cfg.SRQPD = a.SRQ.ring, true, a.SRQ.pd.num
		if q.tags() != nil {
			q.matchTags(&cfg)
		}
	case a.Outside != nil:
		cfg.RQ, cfg.OnState = a.Outside, func(s ib.QPState) { a.Outside.Let(postingIn(s)) }
	default:
		q.rq = queue.NewRecvQueue(int(a.Cap.MaxRecvWR), int(a.Cap.MaxRecvSGE))
		cfg.RQ = q.rq
	}
	return cfg
}

func (q *QP) sourceOf(sgidIndex uint8) netip.AddrPort {
	t := q.addrs.Load()
	if t == nil || int(sgidIndex) >= len(*t) {
		return netip.AddrPort{}
	}
	return (*t)[sgidIndex]
}

// event passes an event of the machine on to the application.
func (q *QP) event(e ib.EventType) {
	if q.lentTo != nil {
		q.lentTo(e)
		return
	}
	if e == ib.EventQPFatal || e == ib.EventQPReqErr || e == ib.EventQPAccessErr {
		q.ctx.host.record(false, "QP %v: %v", q.QPN(), e)
	}
	q.ctx.events.put(AsyncEvent{Type: e, QP: q})
}

// QPN returns the queue pair's number.
func (q *QP) QPN() ib.QPN {
	if q.away != nil {
		return q.away.QPN()
	}
	return q.conn.QPN()
}

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.init.Type }

// Context returns the device context.
func (q *QP) Context() *Context { return q.ctx }

// PD returns the protection domain, nil of an XRC_RECV queue pair.
func (q *QP) PD() *PD { return q.pd }

// State returns the current state.
func (q *QP) State() ib.QPState {
	if q.away != nil {
		return q.queryAway().State
	}
	q.conn.Lock()
	defer q.conn.Unlock()
	return q.conn.Machine().State()
}

// Query returns the attributes of the queue pair and those it was made with: ibv_query_qp(3).
func (q *QP) Query() (ib.QPAttr, QPInitAttr) {
	var a ib.QPAttr
	if q.away != nil {
		a = q.queryAway()
	} else {
		q.conn.Lock()
		q.conn.Machine().Query(&a)
		q.conn.Unlock()
	}
	a.Cap = q.init.Cap
	return a, q.init
}

// Modify changes attributes and state: ibv_modify_qp(3), whose table of required and optional
// attributes holds; that of iWARP is in the package comment.
func (q *QP) Modify(attr *ib.QPAttr, mask ib.QPAttrMask) (err error) {
	defer func() { q.logModify(attr, mask, err) }()
	if attr == nil {
		return invalid("attr", "is missing")
	}
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	switch {
	case q.gone.Load():
		return invalid("QP", "was destroyed")
	case q.away != nil:
		return q.modifyAway(attr, mask)
	case q.spreads != nil:
		return fail(syscall.EOPNOTSUPP, "QP", "has no states: its work queues have")
	}
	mask = device.Taken(q.init.Type, mask)
	limits, err := q.ctx.limits(mask)
	if err != nil {
		return err
	}
	next, err := q.ctx.info.CheckModify(q.init.Type, q.State(), attr, mask, &limits)
	if err != nil {
		return err
	}
	var src netip.Addr
	if mask&ib.QPAV != 0 {
		src = q.ctx.back.source(limits.GIDs, attr.AH.GRH.SGIDIndex)
	}
	if mask&ib.QPAltPath != 0 {
		if err := q.loadAlternate(attr, mask, &limits); err != nil {
			return err
		}
	}
	if q.init.Type == ib.QPTypeUD && next == ib.QPRTR {
		if err := q.listenAll(); err != nil {
			return err
		}
	}
	err = q.conn.Modify(attr, mask, src, func(cur ib.QPState) error {
		_, err := q.ctx.info.CheckModify(q.init.Type, cur, attr, mask, &limits)
		if err == nil && mask&ib.QPPathMigState != 0 {
			err = q.checkMigration(attr.PathMigState, mask&ib.QPAltPath != 0)
		}
		return err
	})
	if err == nil && next == ib.QPReset {
		q.purge()
	}
	return err
}

// loadAlternate prepares the alternate path that a modification loads.
func (q *QP) loadAlternate(attr *ib.QPAttr, mask ib.QPAttrMask, limits *device.Limits) error {
	c, ok := roce.ConnOf(q.conn)
	if !ok {
		return fail(syscall.EOPNOTSUPP, "mask", "devices of kind %v have no alternate paths",
			q.ctx.info.Kind)
	}
	return c.LoadAlternate(attr, mask, q.ctx.back.source(limits.GIDs, attr.AltAH.GRH.SGIDIndex))
}

// checkMigration checks a modification of the state of path migration, which loads an alternate
// path or does not. The caller holds the lock: a packet may arm the queue pair, or migrate.
func (q *QP) checkMigration(s ib.MigState, loads bool) error {
	c, ok := roce.ConnOf(q.conn)
	var had ib.MigState
	if ok {
		var loaded bool
		had, loaded = c.Migration()
		loads = loads || loaded
	}
	switch {
	case s == ib.MigRearm && !loads:
		return invalid("PathMigState", "MigRearm without an alternate path: add QPAltPath")
	case s == ib.MigMigrated && had == ib.MigRearm:
		return invalid("PathMigState", "MigMigrated before the peer is armed: wait for MigArmed")
	}
	return nil
}

// listenAll makes a UD queue pair reachable at, and able to send from, every
// address of the port. One that the system does not let us use yet, such as an
// IPv6 address still being checked for duplicates, is left out.
func (q *QP) listenAll() error {
	addrs, err := q.ctx.info.AddrTable()
	if err != nil {
		return err
	}
	table := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		if !a.IsValid() {
			continue
		}
		if table[i], err = q.bind(a); err != nil {
			return err
		}
	}
	q.addrs.Store(&table)
	return nil
}

// listenAt is listenAll of an address that came to the port's GID table
// afterwards. The queue pair does nothing if it is not ready to receive.
func (q *QP) listenAt(index int, a netip.Addr) error {
	if at := q.sourceOf(uint8(index)); q.addrs.Load() == nil || at.Addr() == a.WithZone("") {
		return nil
	}
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	if q.gone.Load() {
		return nil
	}
	at, err := q.bind(a)
	if err != nil {
		return err
	}
	old := *q.addrs.Load()
	table := make([]netip.AddrPort, max(len(old), index+1))
	copy(table, old)
	table[index] = at
	q.addrs.Store(&table)
	return nil
}

// bind returns where the queue pair sends from an address; zero if it cannot
// be used yet.
func (q *QP) bind(a netip.Addr) (netip.AddrPort, error) {
	c, ok := roce.ConnOf(q.conn)
	if !ok {
		return netip.AddrPort{}, nil
	}
	port, err := c.Bind(a)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(a.WithZone(""), port), err
}

// Destroy removes the queue pair, also with work outstanding, whose completions do not come any
// more: ibv_destroy_qp(3). Messages that have arrived are acknowledged before.
func (q *QP) Destroy() (err error) {
	defer func() { q.ctx.logCall("ibv_destroy_qp", err, "qpn", text{q.QPN()}) }()
	if n := q.mcast.attached(); n > 0 {
		return fail(syscall.EBUSY, "QP", "is attached to %d multicast groups", n)
	}
	if n := q.flows.Load(); n > 0 {
		return fail(syscall.EBUSY, "QP", "has %d flows", n)
	}
	q.ctx.eng.TakeArrived() // an adapter would have acknowledged it
	if !q.destroy() {
		return invalid("QP", "was destroyed before")
	}
	return nil
}

// purge removes the queue pair's completions from its completion queues. Those of a shared receive
// queue that matches tags stay: its receives are gone whether or not the queue pair lives.
func (q *QP) purge() {
	a := &q.init
	if q.tags() != nil {
		if a.SendCQ != nil {
			a.SendCQ.ring.PurgeSends(q.QPN())
		}
		return
	}
	if a.SendCQ != nil {
		a.SendCQ.ring.Purge(q.QPN())
	}
	if a.RecvCQ != nil && a.RecvCQ != a.SendCQ {
		a.RecvCQ.ring.Purge(q.QPN())
	}
}

// TakeArrived processes all packets that have arrived. The function that it returns reports whether
// the application has polled all completions that the queue pair's CQs held at that moment. The
// caller holds no lock that events take.
func (q *QP) TakeArrived() (polled func() bool) {
	q.ctx.eng.TakeArrived()
	var ends [2]uint64
	q.eachCQ(func(i int, c *queue.CQ) { ends[i] = c.Pushed() })
	return func() bool {
		all := true
		q.eachCQ(func(i int, c *queue.CQ) { all = all && c.Polled() >= ends[i] })
		return all
	}
}

// eachCQ calls f with the completion queues, which live as long as the queue pair. It calls f for
// none of a queue pair that is destroyed.
func (q *QP) eachCQ(f func(i int, c *queue.CQ)) {
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	if q.gone.Load() {
		return
	}
	for i, c := range []*CQ{q.init.SendCQ, q.recvCQ()} {
		if c != nil {
			f(i, c.ring)
		}
	}
}

// destroy takes the queue pair out of all that it is part of. It reports false if that was done
// before.
func (q *QP) destroy() bool {
	q.modifyMu.Lock() // a modification under way would open sockets anew
	defer q.modifyMu.Unlock()
	if q.gone.Swap(true) {
		return false
	}
	q.mcast.leaveAll(q)
	if q.init.Outside != nil { // a lingering association may still look
		q.conn.Lock()
		q.init.Outside.Leave()
		q.conn.Unlock()
	}
	switch {
	case q.away != nil:
		q.away.Close()
	case q.target != nil:
		q.leaveTarget()
	default:
		q.conn.Close()
	}
	q.purge()
	q.leaveCntrs()
	a := &q.init
	c := q.ctx
	c.events.forget(func(e *AsyncEvent) bool { return e.QP == q })
	c.mu.Lock()
	delete(c.qps, q)
	c.host.numbered.CompareAndDelete(q.QPN(), q)
	c.mu.Unlock()
	if a.XRCD != nil {
		a.XRCD.users.Add(-1)
		return true
	}
	q.pd.users.Add(-1)
	if a.SendCQ != nil {
		a.SendCQ.users.Add(-1)
	}
	if q.spreads != nil {
		q.spreads.users.Add(-1)
	}
	if a.RecvCQ != nil {
		a.RecvCQ.users.Add(-1)
	}
	if a.SRQ != nil {
		a.SRQ.users.Add(-1)
	}
	return true
}

// Beside adds an object of an application to those that are preloaded for the queue pair's packets
// (engine.Near). It waits for receives by CQ.Await, so what it waits on is added, too.
func (q *QP) Beside(l mem.Lines) {
	near := &q.conn.Near
	near.Beside(l)
	if ch, err := q.recvCQ().ownChannel(); err == nil {
		near.Beside(mem.LinesOf(ch))
		near.Beside(mem.LinesOfChan(ch.ready))
	}
}
