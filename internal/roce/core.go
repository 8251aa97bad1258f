package roce

import (
	"verbena/ib"
	"verbena/internal/queue"
	wire "verbena/internal/wire/roce"
)

// Core is the part of a queue pair that does not depend on its service:
// state, attributes, events, counters and the receive that a message fills.
// The machines embed it.
type Core struct {
	Config

	Attr  ib.QPAttr // as modified; what Query returns
	Path  *Path     // nil until an address vector is set
	MTU   int       // payload bytes of a packet
	Count Counters

	Recv     queue.RecvWQE // the receive taken for the message in progress
	RecvHeld bool          // Recv is taken and not completed

	state  ib.QPState
	events []ib.EventType
	comEst bool  // EventCommEst was raised
	wc     ib.WC // scratch: passing it on by pointer costs no allocation
}

// NewCore returns a core in the RESET state.
func NewCore(c Config) Core { return Core{Config: c, state: ib.QPReset} }

// State returns the state of the queue pair.
func (q *Core) State() ib.QPState { return q.state }

// Patient reports that nothing to be sent can wait; see Machine.
func (q *Core) Patient() (psn ib.PSN, ok bool) { return 0, false }

// Counters returns the queue pair's counts.
func (q *Core) Counters() *Counters { return &q.Count }

// transitions are the states that may follow a state.
//
// Spec: IBTA vol. 1, figure 124 (QP/EE context state diagram).
var transitions = [...]uint8{
	ib.QPReset: 1<<ib.QPReset | 1<<ib.QPInit | 1<<ib.QPErr,
	ib.QPInit:  1<<ib.QPReset | 1<<ib.QPInit | 1<<ib.QPRTR | 1<<ib.QPErr,
	ib.QPRTR:   1<<ib.QPReset | 1<<ib.QPRTS | 1<<ib.QPErr,
	ib.QPRTS:   1<<ib.QPReset | 1<<ib.QPRTS | 1<<ib.QPSQD | 1<<ib.QPSQE | 1<<ib.QPErr,
	ib.QPSQD:   1<<ib.QPReset | 1<<ib.QPRTS | 1<<ib.QPSQD | 1<<ib.QPSQE | 1<<ib.QPErr,
	ib.QPSQE:   1<<ib.QPReset | 1<<ib.QPRTS | 1<<ib.QPErr,
	ib.QPErr:   1<<ib.QPReset | 1<<ib.QPErr,
}

// MayFollow reports whether a queue pair may go from one state to another.
func MayFollow(from, to ib.QPState) bool { return transitions[from]>>to&1 != 0 }

// Enter changes the state. It panics on a transition that the object layer
// must have refused.
func (q *Core) Enter(s ib.QPState) {
	if !MayFollow(q.state, s) {
		panic("roce: no transition from " + q.state.String() + " to " + s.String())
	}
	q.state = s
}

// Reset forgets everything but the configuration and the counters, and with
// it all work posted, which makes no completion.
//
// Spec: IBTA vol. 1, 10.3.1.1 (Reset).
func (q *Core) Reset() {
	for q.SQ.Len() > 0 {
		q.SQ.PopFront()
	}
	for !q.SRQ && q.RQ.Pop(&q.Recv) {
	}
	*q = Core{Config: q.Config, Count: q.Count, Recv: q.Recv}
}

// Apply takes over the attributes that only the packets' headers and checks
// depend on. The state, PSNs, timers and depths are the machine's.
func (q *Core) Apply(a *ib.QPAttr, mask ib.QPAttrMask, path *Path) {
	cur := &q.Attr
	if mask&ib.QPAccessFlags != 0 {
		cur.AccessFlags = a.AccessFlags
	}
	if mask&ib.QPPKeyIndex != 0 {
		cur.PKeyIndex = a.PKeyIndex
	}
	if mask&ib.QPPort != 0 {
		cur.PortNum = a.PortNum
	}
	if mask&ib.QPQKey != 0 {
		cur.QKey = a.QKey
	}
	if mask&ib.QPAV != 0 {
		cur.AH, q.Path = a.AH, path
	}
	if mask&ib.QPPathMTU != 0 {
		cur.PathMTU, q.MTU = a.PathMTU, a.PathMTU.Bytes()
	}
	if mask&ib.QPDestQPN != 0 {
		cur.DestQPN = a.DestQPN
	}
	if mask&ib.QPEnSQDAsyncNotify != 0 {
		cur.EnSQDAsyncNotify = a.EnSQDAsyncNotify
	}
}

// maxEvents bounds the events kept for PollEvent: each kind is raised at most
// once between two modifications.
const maxEvents = 8

// Raise keeps an asynchronous event for PollEvent.
func (q *Core) Raise(e ib.EventType) {
	if len(q.events) < maxEvents {
		q.events = append(q.events, e)
	}
}

// PollEvent returns the next asynchronous event.
func (q *Core) PollEvent() (ib.EventType, bool) {
	if len(q.events) == 0 {
		return 0, false
	}
	e := q.events[0]
	q.events = q.events[:copy(q.events, q.events[1:])]
	return e, true
}

// Established raises EventCommEst at the first packet in RTR.
//
// Spec: IBTA vol. 1, 11.6.3.1 (communication established).
func (q *Core) Established() {
	if q.state == ib.QPRTR && !q.comEst {
		q.comEst = true
		q.Raise(ib.EventCommEst)
	}
}

// BTH returns the base header common to all packets of a connected queue pair.
// MigReq is 1, as hardware sends it where no path migration is set up.
func (q *Core) BTH(op wire.Opcode, psn ib.PSN) wire.BTH {
	return wire.BTH{Opcode: op, MigReq: true, PKey: ib.DefaultPKey, DestQP: q.Attr.DestQPN, PSN: psn}
}

// Packets returns the number of packets of a message of n bytes.
func (q *Core) Packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(q.MTU) - 1) / uint64(q.MTU))
}

// Admit counts a packet and reports whether its headers are right for a queue
// pair of service s, in the order of the specification. A congestion
// notification is counted and never admitted.
//
// Spec: IBTA vol. 1, 9.6.1 (header validation).
func (q *Core) Admit(p *wire.Packet, m *Meta, s wire.Service) bool {
	q.Count[RcvdPackets]++
	q.Count[RcvdBytes] += uint64(len(p.Payload))
	if m.CE() {
		q.Count[CEMarked]++
	}
	switch {
	case p.Info.Service == wire.ServiceCNP:
		q.Count[RcvdCNP]++
	case p.Info.Service != s:
		q.Count[UnexpectedPacket]++
	case q.state < ib.QPRTR:
		q.Count[DroppedState]++
	case s != wire.ServiceUD && (q.Path == nil || m.Src != q.Path.Dst || m.Dst != q.Path.Src):
		q.Count[WrongSource]++
	case !p.PKey.Matches(ib.DefaultPKey):
		q.Count[WrongPKey]++
	default:
		return true
	}
	return false
}

// Sent counts the packets of a train.
func (q *Core) Sent(b *Burst) {
	q.Count[SentPackets] += uint64(b.Len())
	q.Count[SentBytes] += uint64(b.Bytes())
}
