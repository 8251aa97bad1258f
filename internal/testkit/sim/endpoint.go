// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
	"verbena/internal/roce/ud"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

const (
	domain      mem.PD  = 3
	qkey        ib.QKey = 0x7777
	maxInline           = 64
	sqDepth             = 16
	rqDepth             = 16
	staticBytes         = 6 << 10 // of the target: only ever read
	atomicWords         = 4
	sourcePort          = 0xc000

	targetAccess = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead |
		ib.AccessRemoteAtomic | ib.AccessMWBind | ib.AccessFlushGlobal
)

// node is one host: an address and a memory table.
type node struct {
	addr netip.Addr
	mem  *mem.Table
	qps  map[ib.QPN]*endpoint
	srq  *recvPool // nil where each queue pair has its own
	bad  int       // datagrams with a wrong ICRC or form

	reorder      *mem.Budget
	reorderBytes int // its size
}

// endpoint is one queue pair, with its memory, its plan and its outcome.
type endpoint struct {
	world   *world
	node    *node
	peer    *endpoint // nil for UD
	typ     ib.QPType
	qpn     ib.QPN
	mtu     int
	machine roce.Machine
	sq      *queue.SendQueue
	scq     *queue.CQ
	rcq     *queue.CQ
	srqn    ib.SRQN // XRC_RECV: of its pool; 0 once that was destroyed
	mem     *arena
	send    *area // read locally only
	result  *area // written locally
	target  *area // open to the peer
	static  piece // of target
	words   piece // of target
	pool    *recvPool

	window    *mem.Window
	windowKey ib.RKey
	bound     bool // the window may be used

	plan    []*item
	posted  int
	settled int        // items before this have their fate
	seen    int        // of the peer's plan: items before this are known to be executed
	history [][]uint64 // of each word of target: values it must pass through

	timerAt monotime.Time
	state   ib.QPState
	gone    bool   // destroyed
	sure    bool   // UC, UD: everything sent to it arrives
	exact   bool   // must end as the oracle says
	failed  bool   // a send completed with an error
	revoked []byte // target as it was when its key was taken away
	final   []byte // target as the oracle leaves it
}

func (w *world) newEndpoint(n *node, t ib.QPType, qpn ib.QPN, mtu ib.MTU) *endpoint {
	e := &endpoint{
		world: w, node: n, typ: t, qpn: qpn, mtu: mtu.Bytes(), timerAt: monotime.Never,
		exact: reliable(t), sq: queue.NewSendQueue(sqDepth, 8, maxInline),
		scq: queue.NewCQ(sqDepth), rcq: queue.NewCQ(cqDepth),
		mem: &arena{bytes: make([]byte, 4*(areaBytes+guardBytes)+guardBytes)},
	}
	w.fill(e.mem.bytes)
	e.send = e.mem.newArea(n.mem, 0)
	relaxed := ib.Access(w.seed&1) * ib.AccessRelaxedOrdering
	e.result = e.mem.newArea(n.mem, ib.AccessLocalWrite|relaxed)
	e.target = e.mem.newArea(n.mem, targetAccess)
	e.static, _ = e.target.take(staticBytes)
	e.words, _ = e.target.take(8 * atomicWords)
	// Repeated packets of UC and UD use up receives that RC then waits for.
	switch {
	case t == ib.QPTypeXRCSend: // never receives
		e.pool = &recvPool{owner: e}
	case t == ib.QPTypeXRCRecv:
		e.srqn = srqnBase + ib.SRQN(qpn)
		e.pool = &recvPool{owner: e, area: e.mem.newArea(n.mem, ib.AccessLocalWrite),
			srq: queue.NewSRQ(rqDepth, 8, nil)}
	case t == ib.QPTypeRC || w.calm:
		e.pool = n.srq
	}
	if e.pool == nil {
		e.pool = newRecvPool(e, e.mem.newArea(n.mem, ib.AccessLocalWrite))
	}
	c := roce.Config{QPN: qpn, PD: domain, Mem: n.mem, SQ: e.sq, RQ: e.pool.source(),
		SRQ: e.pool.srq != nil, SRQPD: domain, SendCQ: e.scq, RecvCQ: e.rcq,
		Reorder: n.reorder}
	switch t {
	case ib.QPTypeRC:
		e.machine = rc.New(c)
	case ib.QPTypeXRCSend:
		e.machine = rc.NewXRCSend(c)
	case ib.QPTypeXRCRecv:
		e.machine = rc.NewXRCRecv(c, e.inbox)
	case ib.QPTypeUC:
		e.machine = uc.New(c)
	case ib.QPTypeUD:
		e.machine = ud.New(ud.Config{Config: c, Source: func(uint8) netip.AddrPort {
			return netip.AddrPortFrom(n.addr, sourcePort)
		}, MTU: e.mtu})
	}
	e.sure = !reliable(t) && w.calm && e.pool.srq == nil
	n.qps[qpn] = e
	w.endpoints = append(w.endpoints, e)
	return e
}

// srqnBase sets numbers of shared receive queues apart from those of queue pairs.
const srqnBase ib.SRQN = 0x1000

// reliable reports whether a service loses nothing.
func reliable(t ib.QPType) bool {
	return t == ib.QPTypeRC || t == ib.QPTypeXRCSend || t == ib.QPTypeXRCRecv
}

// inbox is the XRC domain of e, which has one shared receive queue.
func (e *endpoint) inbox(n ib.SRQN) *rc.Inbox {
	if n != e.srqn || n == 0 {
		return nil
	}
	return &rc.Inbox{PD: domain, Mem: e.node.mem, RQ: e.pool.srq, CQ: e.rcq}
}

// connect brings e to RTS; peer is nil for UD.
func (e *endpoint) connect(peer *endpoint, a ib.QPAttr) {
	e.peer = peer
	var path *roce.Path
	if peer != nil {
		path = roce.NewPath(e.node.addr, sourcePort+uint16(e.qpn),
			&ib.GRH{DGID: ib.GIDFromAddr(peer.node.addr)})
		a.DestQPN = peer.qpn
	}
	for _, step := range []struct {
		to   ib.QPState
		mask ib.QPAttrMask
	}{
		{ib.QPInit, ib.QPStateAttr | ib.QPAccessFlags | ib.QPQKey},
		{ib.QPRTR, ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN |
			ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer},
		{ib.QPRTS, ib.QPStateAttr | ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry |
			ib.QPMaxQPRdAtomic},
	} {
		a.State = step.to
		e.machine.Modify(e.world.net.Now(), &a, step.mask, path)
		e.watchState()
	}
}

// input takes a datagram whose ICRC and form are right.
func (e *endpoint) input(p *wire.Packet, d *simnet.Datagram) {
	e.machine.HandleInput(e.world.net.Now(), p,
		&roce.Meta{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, Long: e.world.memory != nil})
	e.pump()
}

// pump sends the machine's output and sets its timer.
func (e *endpoint) pump() {
	w := e.world
	e.watchState()
	for n := 0; !e.gone && w.poll(e.machine); n++ {
		if n > 10000 {
			w.fail("QP %v sends for ever", e.qpn)
			return
		}
		w.send(w.burst)
	}
	for {
		if _, ok := e.machine.PollEvent(); !ok {
			break
		}
	}
	e.watchState()
	e.setTimer()
}

func (e *endpoint) setTimer() {
	at := e.machine.NextTimeout()
	if at >= e.timerAt || at == monotime.Never {
		return
	}
	e.timerAt = at
	e.world.net.At(at, func() {
		if e.timerAt != at || e.gone {
			return
		}
		e.timerAt = monotime.Never
		if now := e.world.net.Now(); e.machine.NextTimeout() <= now {
			e.machine.HandleTimeout(now)
		}
		e.pump()
	})
}

// legal is figure 124 of the specification, told again.
var legal = map[ib.QPState][]ib.QPState{
	ib.QPReset: {ib.QPInit},
	ib.QPInit:  {ib.QPRTR, ib.QPErr},
	ib.QPRTR:   {ib.QPRTS, ib.QPErr},
	ib.QPRTS:   {ib.QPSQD, ib.QPSQE, ib.QPErr},
	ib.QPSQD:   {ib.QPRTS, ib.QPSQE, ib.QPErr},
	ib.QPSQE:   {ib.QPRTS, ib.QPErr},
	ib.QPErr:   {ib.QPReset},
}

func (e *endpoint) watchState() {
	s := e.machine.State()
	if s == e.state {
		return
	}
	for _, ok := range legal[e.state] {
		if s == ok {
			e.state = s
			return
		}
	}
	e.world.fail("QP %v went from %v to %v", e.qpn, e.state, s)
}
