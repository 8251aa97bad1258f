// SPDX-License-Identifier: BSD-2-Clause

package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
	"verbena/internal/roce/ud"
	wire "verbena/internal/wire/roce"
)

// player is our machine in the place of one recorded end.
type player struct {
	c         *Conversation
	end       int // which one we are
	machine   roce.Machine
	mem       *mem.Table
	sq        *queue.SendQueue
	rq        *queue.RecvQueue
	wcs       []ib.WC
	local     *mem.Region
	target    *mem.Region // open to the peer's reads and writes; nil if nothing is
	bytes     []byte      // of target
	now       monotime.Time
	next      ib.PSN        // of the next request not yet posted
	requests  []wire.Packet // sent and not yet compared
	responses []wire.Packet
	cut       bool // the capture ends within the last message
	burst     *roce.Burst
}

const (
	domain     mem.PD = 1
	localBytes        = 1 << 20
	ringBytes         = 64 << 10
	localAddr  uint64 = 0x10000
	sourcePort        = 0xc000
	allAccess         = ib.AccessLocalWrite | ib.AccessRemote
	grhBytes          = 40
)

// Push takes completions.
func (p *player) Push(wc *ib.WC, _ bool) bool { p.wcs = append(p.wcs, *wc); return true }

// newPlayer makes our machine and brings it to RTS as the recorded end was.
func newPlayer(c *Conversation, end int) (*player, error) {
	me, peer := c.Ends[end], c.Ends[1-end]
	seed := uint32(end)
	p := &player{
		c: c, end: end, next: me.PSN, burst: roce.NewBurst(),
		mem: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed }),
		sq:  queue.NewSendQueue(256, 4, 0), rq: queue.NewRecvQueue(256, 4),
	}
	var err error
	if p.local, err = p.mem.Register(domain, make([]byte, localBytes), localAddr,
		ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	if err := p.grant(); err != nil {
		return nil, err
	}
	conf := roce.Config{QPN: me.QPN, PD: domain, Mem: p.mem, SQ: p.sq, RQ: p.rq, SendCQ: p,
		RecvCQ: p, SignalAll: true}
	switch c.Service {
	case wire.ServiceRC:
		p.machine = rc.New(conf)
	case wire.ServiceUC:
		p.machine = uc.New(conf)
	case wire.ServiceUD:
		from := netip.AddrPortFrom(me.Addr, sourcePort)
		p.machine = ud.New(ud.Config{Config: conf, Source: func(uint8) netip.AddrPort {
			return from
		}, MTU: 4096})
	}
	a := ib.QPAttr{
		PathMTU: c.mtu(), SQPSN: me.PSN, RQPSN: peer.PSN, DestQPN: peer.QPN, AccessFlags: allAccess,
		QKey: c.qkey(), MaxRdAtomic: 16, MaxDestRdAtomic: 16, Timeout: 20, RetryCnt: 7, RNRRetry: 7,
	}
	path := roce.NewPath(me.Addr, sourcePort, &ib.GRH{DGID: ib.GIDFromAddr(peer.Addr)})
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		a.State = s
		mask := ib.QPStateAttr
		if s == ib.QPRTR {
			mask = ^(ib.QPEnSQDAsyncNotify | ib.QPCapAttr)
		}
		p.machine.Modify(0, &a, mask, path)
	}
	// rxe has no first window: a machine that finds itself in a ring has one that is wide enough.
	p.burst.Into(make([]byte, ringBytes), false)
	p.machine.PollOutput(0, p.burst)
	p.burst.Reset()
	return p, nil
}

func (c *Conversation) qkey() ib.QKey { return c.Packets[0].DETH.QKey }

// grant registers memory where the peer's requests go: over all the addresses
// that were not refused.
func (p *player) grant() (err error) {
	lo, hi := ^uint64(0), uint64(0)
	for i := range p.c.Packets {
		r := &p.c.Packets[i]
		if r.From == p.end || p.refused(i) {
			continue
		}
		if va, n, ok := remote(&r.Packet); ok {
			lo, hi = min(lo, va), max(hi, va+uint64(n))
		}
	}
	if lo >= hi {
		return nil
	}
	if hi-lo > 64<<20 {
		return fmt.Errorf("the peer's requests span %d bytes", hi-lo)
	}
	lo &^= 7
	p.bytes = make([]byte, hi-lo)
	p.target, err = p.mem.Register(domain, p.bytes, lo, allAccess)
	return err
}

// remote returns the memory that a request names.
func remote(p *wire.Packet) (va uint64, n uint32, ok bool) {
	if p.Info.HasAtomicETH {
		return p.AtomicETH.VA, 8, true
	}
	return p.RETH.VA, p.RETH.DMALen, p.Info.HasRETH
}

// refused reports whether the recorded end answered packet i with an error.
func (p *player) refused(i int) bool {
	a := p.c.answer(i, p.end, p.c.Packets[i].PSN)
	return a != nil && a.Info.HasAETH && a.AETH.Syndrome.Kind() == wire.KindNAK
}

// play goes through the conversation and returns the first difference.
func (p *player) play() error {
	for i := range p.c.Packets {
		r := &p.c.Packets[i]
		var err error
		if r.From == p.end {
			if r.Info.Request {
				p.post(i)
			}
			err = p.compare(&r.Packet)
		} else {
			p.receive(i)
		}
		if err != nil {
			return fmt.Errorf("packet %d of %s: %w", i+1, p.c.Name, err)
		}
	}
	if len(p.requests) > 0 && !p.cut {
		return fmt.Errorf("%s: we sent %v PSN=%v more", p.c.Name, p.requests[0].Opcode,
			p.requests[0].PSN)
	}
	return nil
}

// post posts the work that packet i begins, unless it is a repetition.
func (p *player) post(i int) {
	r := &p.c.Packets[i].Packet
	if !r.Info.First || r.PSN != p.next {
		return
	}
	m := p.c.message(i)
	w, ok := p.sq.Reserve()
	if !ok {
		panic("replay: send queue full")
	}
	fill(w, m)
	if r.Info.HasPayload {
		var all []byte
		for _, part := range m {
			all = append(all, part.Payload...)
		}
		if !m[len(m)-1].Info.Last {
			p.cut = true
			all = append(all, 0)
		}
		p.write(all)
		w.Length = uint32(len(all))
	}
	if w.Length > 0 {
		w.SGE = append(w.SGE, ib.SGE{Addr: localAddr, Length: w.Length, LKey: p.local.LKey()})
	}
	w.Dst, w.RemoteQPN, w.QKey = p.c.Ends[1-p.end].Addr, r.DestQP, r.DETH.QKey
	p.next = m[len(m)-1].PSN.Add(1)
	if r.Opcode == wire.RCRDMAReadRequest {
		mtu := uint32(p.c.mtu().Bytes())
		p.next = r.PSN.Add(max(1, (r.RETH.DMALen+mtu-1)/mtu))
	}
	p.sq.Commit()
	p.machine.Doorbell(p.now)
	p.pump()
}

// write puts the bytes to send into local memory.
func (p *player) write(b []byte) {
	if len(b) == 0 {
		return
	}
	s, v := p.mem.Local(domain,
		ib.SGE{Addr: localAddr, Length: uint32(len(b)), LKey: p.local.LKey()}, ib.AccessLocalWrite)
	if v != ib.VendorNone {
		panic("replay: local memory")
	}
	s.CopyIn(0, b)
	s.Release()
}

// fill makes the work request of a message.
func fill(w *queue.SendWQE, m []*wire.Packet) {
	first, last := m[0], m[len(m)-1]
	w.Flags = ib.SendSignaled
	if last.Solicited {
		w.Flags |= ib.SendSolicited
	}
	w.RemoteAddr, w.RKey, w.Length = first.RETH.VA, first.RETH.RKey, first.RETH.DMALen
	w.Imm, w.InvalidateKey = last.ImmDt.Data, last.IETH.RKey
	switch first.Info.Operation {
	case wire.OpSend:
		w.Opcode = ib.WRSend
		if last.Info.HasImm {
			w.Opcode = ib.WRSendWithImm
		}
		if last.Info.HasIETH {
			w.Opcode = ib.WRSendWithInv
		}
	case wire.OpRDMAWrite:
		w.Opcode = ib.WRRDMAWrite
		if last.Info.HasImm {
			w.Opcode = ib.WRRDMAWriteWithImm
		}
	case wire.OpRDMARead:
		w.Opcode = ib.WRRDMARead
	case wire.OpCompareSwap:
		w.Opcode, w.CompareAdd, w.Swap = ib.WRAtomicCmpAndSwp, first.AtomicETH.Compare,
			first.AtomicETH.SwapAdd
	case wire.OpFetchAdd:
		w.Opcode, w.CompareAdd = ib.WRAtomicFetchAndAdd, first.AtomicETH.SwapAdd
	}
	if first.Info.HasAtomicETH {
		w.RemoteAddr, w.RKey, w.Length = first.AtomicETH.VA, first.AtomicETH.RKey, 8
	}
}

// receive prepares the receives and memory of the recorded end and plays packet i to us.
func (p *player) receive(i int) {
	in := p.c.Packets[i].Packet
	rnr := false
	if a := p.c.answer(i, p.end, in.PSN); a != nil && a.Info.HasAETH &&
		a.AETH.Syndrome.Kind() == wire.KindRNRNAK {
		rnr = true
		p.machine.Modify(p.now, &ib.QPAttr{MinRNRTimer: a.AETH.Syndrome.Value()},
			ib.QPMinRNRTimer, nil)
	}
	if in.Info.ConsumesRecv && (in.Info.First ||
		in.Info.HasImm && in.Info.Operation == wire.OpRDMAWrite) && !rnr {
		w, ok := p.rq.Reserve()
		if !ok {
			panic("replay: receive queue full")
		}
		n := uint32(localBytes / 2)
		w.Length, w.SGE = n, append(w.SGE,
			ib.SGE{Addr: localAddr + uint64(n), Length: n, LKey: p.local.LKey()})
		p.rq.Commit()
	}
	if in.Info.Request && p.target != nil && !p.refused(i) {
		in.RETH.RKey, in.AtomicETH.RKey = p.target.RKey(), p.target.RKey()
		p.prepare(i, &in)
	}
	if in.Info.HasIETH && !p.refused(i) {
		in.IETH.RKey = p.invalidatable()
	}
	e := &p.c.Ends[1-p.end]
	p.machine.HandleInput(p.now, &in,
		&roce.Meta{Src: e.Addr, Dst: p.c.Ends[p.end].Addr, SrcPort: sourcePort})
	p.pump()
	// A lone acknowledgement may wait a little for company.
	for at := p.machine.NextTimeout(); at < p.now.Add(monotime.Millisecond); at =
		p.machine.NextTimeout() {
		p.fire(at)
	}
}

// prepare copies the recorded end's memory into ours.
func (p *player) prepare(i int, in *wire.Packet) {
	a := p.c.answer(i, p.end, in.PSN)
	if a == nil {
		return
	}
	switch in.Info.Operation {
	case wire.OpCompareSwap, wire.OpFetchAdd:
		binary.NativeEndian.PutUint64(p.bytes[in.AtomicETH.VA-p.target.Addr():], a.AtomicAck.Orig)
	case wire.OpRDMARead:
		at := in.RETH.VA - p.target.Addr()
		for psn := in.PSN; at < in.RETH.VA-p.target.Addr()+
			uint64(in.RETH.DMALen); psn = psn.Add(1) {
			if a = p.c.answer(i, p.end, psn); a == nil || len(a.Payload) == 0 {
				return
			}
			at += uint64(copy(p.bytes[at:], a.Payload))
		}
	}
}

// invalidatable returns a key that a SEND may invalidate.
func (p *player) invalidatable() ib.RKey {
	r, err := p.mem.AllocFast(domain, 1)
	if err == nil {
		_, err = r.Map([][]byte{make([]byte, 8)}, 0)
	}
	if err != nil || p.mem.FastRegister(domain, r, r.RKey(), ib.AccessLocalWrite) != ib.VendorNone {
		panic("replay: fast registration")
	}
	return r.RKey()
}

func (p *player) fire(at monotime.Time) {
	p.now = max(p.now, at)
	p.machine.HandleTimeout(p.now)
	p.pump()
}

// pump takes our machine's output.
func (p *player) pump() {
	for p.machine.PollOutput(p.now, p.burst) {
		p.burst.Seal()
		all := bytes.Join(p.burst.Iov(), nil)
		for len(all) > 0 {
			n := min(len(all), p.burst.SegmentBytes())
			var out wire.Packet
			if m := out.Parse(all[:n:n]); m != wire.WellFormed {
				panic("replay: we sent a malformed packet: " + m.String())
			}
			if all = all[n:]; out.Info.Request {
				p.requests = append(p.requests, out)
			} else {
				p.responses = append(p.responses, out)
			}
		}
		p.burst.Reset()
	}
}
