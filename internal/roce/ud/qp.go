// SPDX-License-Identifier: BSD-2-Clause

package ud

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Config has the parameters of a datagram queue pair. Immutable after New.
type Config struct {
	roce.Config
	// Source returns the address of a GID index of the port and the UDP source
	// port of packets from it; the zero AddrPort where the index has none.
	Source func(sgidIndex uint8) netip.AddrPort
	MTU    int // the longest message, in bytes
}

// QP is the protocol state of one unreliable datagram queue pair.
type QP struct {
	roce.Core
	cfg   Config
	psn   ib.PSN // of the next packet
	paths pathCache
}

var _ roce.Datagrams = (*QP)(nil)

// New returns a queue pair in the RESET state.
func New(c Config) *QP {
	q := &QP{Core: roce.NewCore(c.Config), cfg: c}
	q.Core.MTU = c.MTU
	return q
}

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
	attr.SQPSN = q.psn
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path) {
	q.ModifySending(a, mask&^ib.QPPathMTU, path, &q.psn, q.setState)
}

// setState enters a state that the object layer chose.
func (q *QP) setState(s ib.QPState) {
	q.Enter(s)
	switch s {
	case ib.QPReset:
		q.Reset()
		q.Core.MTU, q.psn = q.cfg.MTU, 0
	case ib.QPSQD: // no message is ever half sent
		q.SQDrained()
	case ib.QPErr:
		q.Flush()
	}
}

// HandleInput takes one packet for this queue pair whose ICRC is right.
func (q *QP) HandleInput(now monotime.Time, p *wire.Packet, m *roce.Meta) {
	if !q.Admit(p, m, wire.ServiceUD, false) {
		return
	}
	if q.State() == ib.QPErr {
		q.Count[roce.DroppedState]++
		return
	}
	q.receive(p, m)
}

// Doorbell handles posted work.
func (q *QP) Doorbell(now monotime.Time) { q.FlushPosted() }

// PollOutput fills b with the next burst.
func (q *QP) PollOutput(now monotime.Time, b *roce.Burst) bool {
	for !b.Full() && q.State() == ib.QPRTS && q.SQ.Len() > 0 && !q.Rate.Holds(now) {
		bytes := b.Bytes()
		if !q.send(q.SQ.At(0), b) {
			break
		}
		q.Rate.Sent(now, b.Bytes()-bytes)
	}
	q.Sent(b)
	return b.Len() > 0
}

// Next implements roce.Datagrams.
func (q *QP) Next() (path *roce.Path, dst ib.QPN, ok bool) {
	if q.State() != ib.QPRTS || q.SQ.Len() == 0 || q.Rate.Held() {
		return nil, 0, false
	}
	w := q.SQ.At(0)
	if w.Dst.IsValid() {
		path = q.pathTo(w)
	}
	return path, w.RemoteQPN, true
}

// NextTimeout returns when the limit of the rate lets the next datagram go.
func (q *QP) NextTimeout() monotime.Time { return q.Rate.Due() }

// HandleTimeout lets the datagram go that the limit of the rate held.
func (q *QP) HandleTimeout(now monotime.Time) { q.Rate.HandleTimeout(now) }
