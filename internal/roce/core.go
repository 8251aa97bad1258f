// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/qp"
	wire "verbena/internal/wire/roce"
)

// Core adds RoCEv2's part to the queue pair of any transport: the path of its packets, counters,
// and the admission of packets. The machines embed it.
type Core struct {
	qp.Core

	Path  *Path // nil until an address vector is set
	MTU   int   // payload bytes of a packet
	Rate  RateLimit
	Count Counters

	alt    *Path // the alternate path; nil without one
	early  bool  // EventPathMigErr was raised since the last modification
	comEst bool  // EventCommEst was raised
}

// NewCore returns a core in the RESET state.
func NewCore(c Config) Core { return Core{Core: qp.NewCore(c)} }

// AckMayWait reports that nothing to be sent can wait; see Machine.
func (q *Core) AckMayWait() (psn ib.PSN, ok bool) { return 0, false }

// Counters returns the queue pair's counts.
func (q *Core) Counters() *Counters { return &q.Count }

// AppendCounts appends the queue pair's counts.
func (q *Core) AppendCounts(counts []uint64) []uint64 { return append(counts, q.Count[:]...) }

// PathState returns the counts of packets; RC measures more.
func (q *Core) PathState() congestion.Path {
	return congestion.Path{Lost: q.Count[Lost], Repeated: q.Count[Retransmitted],
		Marked: q.Count[CEMarked], Notified: q.Count[RcvdCNP]}
}

// Reset forgets everything but the configuration and the counters, and with
// it all work posted, which makes no completion.
func (q *Core) Reset() {
	q.Core.Reset()
	*q = Core{Core: q.Core, Count: q.Count}
}

// Apply stores the attributes of a modification, and takes over the path. The state, PSNs, timers
// and depths are the machine's.
func (q *Core) Apply(a *ib.QPAttr, mask ib.QPAttrMask, path *Path) {
	q.SetAttributes(a, mask)
	if mask&ib.QPAV != 0 {
		q.Path = path
	}
	if mask&ib.QPPathMTU != 0 {
		q.MTU = a.PathMTU.Bytes()
	}
	if mask&ib.QPRateLimit != 0 {
		q.Rate.Set(a, q.MTU)
	}
	if mask&ib.QPPathMigState != 0 {
		q.setMigration(a.PathMigState)
	}
}

// Established raises EventCommEst at the first packet in RTR.
//
// Spec: IBTA vol. 1, 11.6.3.1 (communication established).
func (q *Core) Established() {
	if q.State() == ib.QPRTR && !q.comEst {
		q.comEst = true
		q.Raise(ib.EventCommEst)
	}
}

// BTH returns the base header common to all packets of a connected queue pair.
func (q *Core) BTH(op wire.Opcode, psn ib.PSN) wire.BTH {
	return wire.BTH{Opcode: op, MigReq: q.Attr.PathMigState == ib.MigMigrated, PKey: ib.DefaultPKey,
		DestQP: q.Attr.DestQPN, PSN: psn}
}

// Packets returns the number of packets of a message of n bytes.
func (q *Core) Packets(n uint32) uint32 {
	if n <= uint32(q.MTU) {
		return 1
	}
	return uint32((uint64(n) + uint64(q.MTU) - 1) / uint64(q.MTU))
}

// Admit counts a packet and reports whether its headers are right for a queue
// pair of service s, in the order of the specification. A congestion
// notification is admitted where s is that of them; elsewhere it is only counted. A packet by the
// alternate path is taken where its PSN is one of those expected.
//
// Spec: IBTA vol. 1, 9.6.1 (header validation).
func (q *Core) Admit(p *wire.Packet, m *Meta, s wire.Service, expected bool) bool {
	q.Count[RcvdPackets] += uint64(m.Packets(p))
	q.Count[RcvdBytes] += uint64(len(p.Payload))
	if m.CE() {
		q.Count[CEMarked]++
	}
	switch {
	case p.Info.Service == wire.ServiceCNP && s != wire.ServiceCNP:
		q.Count[RcvdCNP]++
	case p.Info.Service != s:
		q.Count[UnexpectedPacket]++
	case q.State() < ib.QPRTR:
		q.Count[DroppedState]++
	case s != wire.ServiceUD && !q.Path.reaches(m) && !(expected && q.mayFollow(p, m)):
		q.Count[WrongSource]++
	case !p.PKey.Matches(ib.DefaultPKey):
		q.Count[WrongPKey]++
		q.Violation(false)
	default:
		if q.MayMigrate() {
			q.noteMigration(p, m)
		}
		return true
	}
	return false
}

// AdmitRun is Admit for n packets of a run, p the first. It reports false, and counts nothing, if
// Admit might not pass all of them without a further effect.
func (q *Core) AdmitRun(p *wire.Packet, m *Meta, s wire.Service) bool {
	return p.Info.Service == s && q.State() >= ib.QPRTR && q.State() != ib.QPErr && !m.CE() &&
		!m.Long && q.Path.reaches(m) && p.PKey.Matches(ib.DefaultPKey) && !q.MayMigrate()
}

// AdmittedRun counts n packets of a run that AdmitRun let pass.
func (q *Core) AdmittedRun(p *wire.Packet, n int) {
	q.Count[RcvdPackets] += uint64(n)
	q.Count[RcvdBytes] += uint64(n * len(p.Payload))
}

// Violation notes a packet with a wrong Q_Key or else a wrong P_Key.
func (q *Core) Violation(qkey bool) {
	if q.OnViolation != nil {
		q.OnViolation(qkey)
	}
}

// Sent counts the packets of a burst.
func (q *Core) Sent(b *Burst) {
	q.Count[SentPackets] += uint64(b.Packets())
	q.Count[SentBytes] += uint64(b.Bytes())
}
