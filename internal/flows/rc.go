// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

const (
	domain mem.PD = 3
	base   uint64 = 1 << 32
	access        = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead |
		ib.AccessRelaxedOrdering
	firstQPN = 16
)

// rcEnd is a queue pair, its memory and its application.
type rcEnd struct {
	w         *World
	flow      *Flow
	addr      netip.Addr
	qpn       ib.QPN
	peer      *rcEnd
	machine   *rc.QP
	sq        *queue.SendQueue
	rq        *queue.RecvQueue
	scq       *queue.CQ
	rcq       *queue.CQ
	region    *mem.Region
	timerAt   monotime.Time
	posted    int64 // bytes
	done      int64 // bytes
	arrived   int64 // bytes of payload, those that came again included
	fault     ib.WC
	responses sent
}

// sent counts READ responses sent, and the PSNs up to the newest.
type sent struct {
	packets, psns uint64
	newest        ib.PSN
}

func (s *sent) note(psn ib.PSN) {
	s.packets++
	if s.psns == 0 {
		s.psns, s.newest = 1, psn
	} else if d := psn.Diff(s.newest); d > 0 {
		s.psns, s.newest = s.psns+uint64(d), psn
	}
}

// again returns how many were sent once more, at least.
func (s *sent) again() uint64 { return s.packets - min(s.packets, s.psns) }

func (w *World) newRC(f *Flow) machine {
	a, b := w.newRCEnd(f, f.From), w.newRCEnd(f, f.To)
	a.connect(b)
	b.connect(a)
	return a
}

func (w *World) newRCEnd(f *Flow, addr netip.Addr) *rcEnd {
	h := w.host(addr)
	e := &rcEnd{w: w, flow: f, addr: addr, timerAt: monotime.Never,
		qpn: firstQPN + ib.QPN(len(h.queuePairs))}
	h.queuePairs = append(h.queuePairs, e)
	table := mem.NewTable(w.Net.Rand.Uint32)
	var err error
	if e.region, err = table.Register(domain, w.bytes(f.Message), base, access); err != nil {
		panic(err)
	}
	e.sq, e.rq = queue.NewSendQueue(f.Depth, 1, 0), queue.NewRecvQueue(f.Depth, 1)
	e.scq, e.rcq = queue.NewCQ(f.Depth+1), queue.NewCQ(f.Depth+1)
	c := roce.Config{
		QPN: e.qpn, PD: domain, Mem: table, SQ: e.sq, RQ: e.rq, SendCQ: e.scq, RecvCQ: e.rcq,
		Congestion: f.Congestion,
	}
	if f.GoBackN {
		c.Reorder = mem.NewBudget(0)
	}
	e.machine = rc.New(c)
	return e
}

func (e *rcEnd) connect(peer *rcEnd) {
	e.peer = peer
	path := roce.NewPath(e.addr, e.flow.port, &ib.GRH{DGID: ib.GIDFromAddr(peer.addr)})
	a := ib.QPAttr{
		PathMTU: e.flow.MTU, DestQPN: peer.qpn, AccessFlags: access,
		MaxRdAtomic: uint8(e.flow.Reads), MaxDestRdAtomic: uint8(e.flow.Reads),
		MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
	}
	toRTR := ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic |
		ib.QPMinRNRTimer
	toRTS := ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
	for i, mask := range []ib.QPAttrMask{ib.QPAccessFlags, toRTR, toRTS} {
		a.State = ib.QPInit + ib.QPState(i)
		e.machine.Modify(0, &a, ib.QPStateAttr|mask, path)
	}
}

// start posts all that may be posted.
func (e *rcEnd) start() {
	if e.flow.Kind == Send {
		for e.peer.postRecv() {
		}
	}
	for e.post() {
	}
	e.machine.Doorbell(e.w.Net.Now())
	e.pump()
}

func (e *rcEnd) post() bool {
	n := e.flow.next(e.posted)
	if n == 0 {
		return false
	}
	s, ok := e.sq.Reserve()
	if !ok {
		return false
	}
	e.posted += int64(n)
	s.Opcode = [...]ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend}[e.flow.Kind]
	s.Flags, s.Length = ib.SendSignaled, n
	s.SGE = append(s.SGE[:0], ib.SGE{Addr: base, Length: s.Length, LKey: e.region.LKey()})
	s.RemoteAddr, s.RKey = base, e.peer.region.RKey()
	e.sq.Commit()
	return true
}

func (e *rcEnd) postRecv() bool {
	r, ok := e.rq.Reserve()
	if !ok {
		return false
	}
	r.Length = uint32(e.flow.Message)
	r.SGE = append(r.SGE[:0], ib.SGE{Addr: base, Length: r.Length, LKey: e.region.LKey()})
	e.rq.Commit()
	return true
}

// handle takes a packet; its check is that of the link, which damages nothing.
func (e *rcEnd) handle(p *wire.Packet, d *simnet.Datagram) {
	if p.Info.HasPayload && (p.Info.Request || p.Info.Operation == wire.OpReadResponse) {
		e.arrived += int64(len(p.Payload))
	}
	if e.flow.GoBackN { // neither end knows that the other is one of Verbena
		p.Selective, p.Overtakes, p.Unawaited, p.AllRETH = false, false, false, false
	}
	meta := roce.Meta{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, TOS: d.TOS}
	e.machine.HandleInput(e.w.Net.Now(), p, &meta)
	e.reap()
	e.pump()
}

// reap takes completions and posts anew.
func (e *rcEnd) reap() {
	for n := e.scq.Poll(e.w.wc[:]); n > 0; n = e.scq.Poll(e.w.wc[:]) {
		for i := range e.w.wc[:n] {
			if e.w.wc[i].Status == ib.WCSuccess {
				e.done += int64(e.flow.next(e.done))
				e.flow.progress(e.done)
				e.post()
			} else if e.fault.Status == ib.WCSuccess {
				e.fault = e.w.wc[i]
			}
		}
		e.machine.Doorbell(e.w.Net.Now())
	}
	for n := e.rcq.Poll(e.w.wc[:]); n > 0; n = e.rcq.Poll(e.w.wc[:]) {
		for range n {
			e.postRecv()
		}
	}
}

// pump sends the machine's output and sets its timer.
func (e *rcEnd) pump() {
	if e.w.reading {
		e.w.pending = append(e.w.pending, e.pump)
		return
	}
	now := e.w.Net.Now()
	for b := e.w.burst; e.machine.PollOutput(now, b); b.Reset() {
		b.Seal()
		p := b.Path()
		d := simnet.Datagram{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: wire.Port,
			TOS: p.TClass, Drops: &e.flow.Drops}
		e.w.sendBurst(b.Iov(), b.Bytes(), b.SegmentBytes(), d, e.note)
	}
	e.w.burst.Reset()
	at := e.machine.NextTimeout()
	if at >= e.timerAt {
		return
	}
	e.timerAt = at
	e.w.Net.At(at, func() {
		if e.timerAt != at {
			return
		}
		e.timerAt = monotime.Never
		if now := e.w.Net.Now(); e.machine.NextTimeout() <= now {
			e.machine.HandleTimeout(now)
		}
		e.reap()
		e.pump()
	})
}

// note counts a READ response that is sent.
func (e *rcEnd) note(datagram []byte) {
	h, _, _ := wire.ParseBTH(datagram)
	if h.Opcode.Info().Operation == wire.OpReadResponse {
		e.responses.note(h.PSN)
	}
}

func (e *rcEnd) bytes() int64 { return e.done }

func (e *rcEnd) received() int64 { return e.arrived + e.peer.arrived }

func (e *rcEnd) path() congestion.Path { return e.machine.PathState() }

func (e *rcEnd) count(c *Counts) {
	n := e.machine.Counters()
	c.Repeated += e.peer.responses.again()
	if e.flow.Kind != Read { // of READs the requests, which cost nothing
		c.Repeated += n[roce.Retransmitted]
	}
	c.Timeouts += n[roce.LocalACKTimeout] + n[roce.TailProbe]
	c.Missed += e.path().Lost
}

func (e *rcEnd) failure() string {
	if e.fault.Status == ib.WCSuccess {
		return ""
	}
	return fmt.Sprintf("%v (vendor %v)", e.fault.Status, e.fault.VendorErr)
}
