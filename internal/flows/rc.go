// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

func clientAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}) }
func serverAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}) }

const (
	domain mem.PD = 3
	base   uint64 = 1 << 32
	access        = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead |
		ib.AccessRelaxedOrdering
	firstQPN = 16
)

// rcEnd is a queue pair, its memory and its application.
type rcEnd struct {
	w       *world
	addr    netip.Addr
	peer    *rcEnd
	machine *rc.QP
	sq      *queue.SendQueue
	rq      *queue.RecvQueue
	scq     *queue.CQ
	rcq     *queue.CQ
	region  *mem.Region
	burst   *roce.Burst
	timerAt monotime.Time
	done    int64
	fault   ib.WC
	wc      [64]ib.WC
	highest ib.PSN // of the READ responses that came
	again   uint64 // READ responses below it
}

func (w *world) newRC(i int) flow {
	a, b := w.newRCEnd(clientAddr(i)), w.newRCEnd(serverAddr(i))
	a.connect(b, uint16(i))
	b.connect(a, uint16(i))
	return a
}

func (w *world) newRCEnd(addr netip.Addr) *rcEnd {
	e := &rcEnd{w: w, addr: addr, burst: roce.NewBurst(), timerAt: monotime.Never}
	table := mem.NewTable(w.net.Rand.Uint32)
	var err error
	if e.region, err = table.Register(domain, make([]byte, w.Message), base, access); err != nil {
		panic(err)
	}
	e.sq, e.rq = queue.NewSendQueue(w.Depth, 1, 0), queue.NewRecvQueue(w.Depth, 1)
	e.scq, e.rcq = queue.NewCQ(w.Depth+1), queue.NewCQ(w.Depth+1)
	c := roce.Config{
		QPN: firstQPN, PD: domain, Mem: table, SQ: e.sq, RQ: e.rq, SendCQ: e.scq, RecvCQ: e.rcq,
	}
	if w.GoBackN {
		c.Reorder = mem.NewBudget(0)
	}
	e.machine = rc.New(c)
	w.net.Attach(addr, e.deliver)
	return e
}

func (e *rcEnd) connect(peer *rcEnd, flow uint16) {
	e.peer = peer
	path := roce.NewPath(e.addr, 0xc000+flow, &ib.GRH{DGID: ib.GIDFromAddr(peer.addr)})
	a := ib.QPAttr{
		PathMTU: e.w.MTU, DestQPN: firstQPN, AccessFlags: access,
		MaxRdAtomic: uint8(e.w.Reads), MaxDestRdAtomic: uint8(e.w.Reads),
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
	if e.w.Kind == Send {
		for e.peer.postRecv() {
		}
	}
	for e.post() {
	}
	e.machine.Doorbell(e.w.net.Now())
	e.pump()
}

func (e *rcEnd) post() bool {
	s, ok := e.sq.Reserve()
	if !ok {
		return false
	}
	s.Opcode = [...]ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend}[e.w.Kind]
	s.Flags, s.Length = ib.SendSignaled, uint32(e.w.Message)
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
	r.Length = uint32(e.w.Message)
	r.SGE = append(r.SGE[:0], ib.SGE{Addr: base, Length: r.Length, LKey: e.region.LKey()})
	e.rq.Commit()
	return true
}

// deliver takes a datagram; its check is that of the link, which damages nothing.
func (e *rcEnd) deliver(d *simnet.Datagram) {
	var p wire.Packet
	if m := p.Parse(d.Payload); m != wire.WellFormed {
		panic(fmt.Sprintf("flows: a machine sent a packet that is %v", m))
	}
	if p.Info.Operation == wire.OpReadResponse {
		if p.PSN.After(e.highest) {
			e.highest = p.PSN
		} else {
			e.again++
		}
	}
	if e.w.GoBackN { // neither end knows that the other is one of Verbena
		p.Selective = false
	}
	meta := roce.Meta{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, TOS: d.TOS}
	e.machine.HandleInput(e.w.net.Now(), &p, &meta)
	e.reap()
	e.pump()
}

// reap takes completions and posts anew.
func (e *rcEnd) reap() {
	for n := e.scq.Poll(e.wc[:]); n > 0; n = e.scq.Poll(e.wc[:]) {
		for i := range e.wc[:n] {
			if e.wc[i].Status == ib.WCSuccess {
				e.done++
				e.post()
			} else if e.fault.Status == ib.WCSuccess {
				e.fault = e.wc[i]
			}
		}
		e.machine.Doorbell(e.w.net.Now())
	}
	for n := e.rcq.Poll(e.wc[:]); n > 0; n = e.rcq.Poll(e.wc[:]) {
		for range n {
			e.postRecv()
		}
	}
}

// pump sends the machine's output and sets its timer.
func (e *rcEnd) pump() {
	now := e.w.net.Now()
	for b := e.burst; e.machine.PollOutput(now, b); b.Reset() {
		b.Seal()
		p := b.Path()
		d := simnet.Datagram{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, TOS: p.TClass}
		e.w.sendBurst(b.Iov(), b.Bytes(), b.SegmentBytes(), d)
	}
	e.burst.Reset()
	at := e.machine.NextTimeout()
	if at >= e.timerAt {
		return
	}
	e.timerAt = at
	e.w.net.At(at, func() {
		if e.timerAt != at {
			return
		}
		e.timerAt = monotime.Never
		if now := e.w.net.Now(); e.machine.NextTimeout() <= now {
			e.machine.HandleTimeout(now)
		}
		e.reap()
		e.pump()
	})
}

// sendBurst cuts a burst into datagrams and sends them.
func (w *world) sendBurst(iov [][]byte, bytes, segment int, d simnet.Datagram) {
	all := make([]byte, 0, bytes)
	for _, v := range iov {
		all = append(all, v...)
	}
	for len(all) > 0 {
		n := min(len(all), segment)
		d.Payload = all[:n:n]
		w.net.Send(d)
		all = all[n:]
		d.ID++
	}
}

func (e *rcEnd) bytes() int64 { return e.done * int64(e.w.Message) }

func (e *rcEnd) count(r *Result) {
	c := e.machine.Counters()
	r.Repeated += e.again
	if e.w.Kind != Read { // of READs the requests, which cost nothing
		r.Repeated += c[roce.Retransmitted]
	}
	r.Timeouts += c[roce.LocalACKTimeout] + c[roce.TailProbe]
	r.Missed += e.machine.PathState().Lost
	if e.fault.Status != ib.WCSuccess {
		r.Dead++
		r.Why = fmt.Sprintf("%v (vendor %v)", e.fault.Status, e.fault.VendorErr)
	}
}
