// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"net/netip"
	"slices"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
	wiretrp "verbena/internal/wire/trp"
)

// Association is a queue pair on a TRP association: one DDP segment a datagram,
// as urdma has it. Beside the methods below it has those of QP that concern work
// requests and state.
//
//	Dial, Accept                   the set-up; PollLink returns its outcome
//	HandleInput(now, from, bytes)  a datagram
//	PollOutput(now, *trp.Burst)    fills one burst; call until it returns false
//	Disconnect(now)                sends all posted requests, then the FIN
//
// It is in INIT before, and goes to RTS with its association, as deep in READs
// and atomics as the two ends have said.
//
// Segments that arrive before their turn are held back in copies, so that the queue pair takes them
// in order. RFC 5041 would let tagged ones be placed at once. But a repeated part of one WRITE
// would then land on top of a later one to the same place. That one's message completes torn (urdma
// warns of that). And a key would be looked at before the message that invalidates it has taken
// effect. The copies are of segments in flight behind a loss, and bounded. A WRITE or SEND is
// complete when the peer's queue pair has it; until then its memory is read again if something is
// lost.
type Association struct {
	*QP
	conn     *trp.Conn // nil without
	local    wiretrp.Setup
	settings Settings
	passed   uint64 // segments given to conn
	head     []byte // scratch
	now      monotime.Time
	link     []trp.Event
	past     trp.Counters // of associations before
	claims   int          // messages held back that want a receive
	order    *trp.InOrder // of conn
	reorder  *mem.Budget  // for segments that arrive before their turn
}

// heldBytes is the memory for segments before their turn of a queue pair without a budget. Half of
// it may be used.
const heldBytes = 4 << 20

// NewAssociation returns a queue pair in the RESET state, without an association. The budget is
// that of its process for segments that arrive before their turn; nil is one of its own.
func NewAssociation(c qp.Config, b *mem.Budget) *Association {
	if b == nil {
		b = mem.NewBudget(heldBytes)
	}
	a := &Association{QP: New(c), reorder: b}
	a.order = trp.NewInOrder(sequence{a}, b)
	a.QP.giveBack = a.giveBackMemory
	return a
}

// urdmaSettings are those of all associations until the peer is known: neither
// end has to speak first, as TRP's own set-up is confirmed.
func urdmaSettings(maxSegment int) Settings {
	return Settings{MaxSegment: min(maxSegment, trp.MaxSegmentBytes), Initiator: true, Urdma: true}
}

// Dial asks a server for an association. maxSegment is the longest DDP segment
// to be sent, with its headers.
//
// Errors: trp.ErrState unless the queue pair is in INIT and has none; those of
// trp.Dial.
func (a *Association) Dial(now monotime.Time, cfg trp.Config, server netip.AddrPort,
	s wiretrp.Setup, maxSegment int) error {
	if !a.free() {
		return trp.ErrState
	}
	c, err := trp.Dial(now, cfg, a.upper(), server, s)
	if err == nil {
		a.take(c, s, maxSegment)
	}
	return err
}

// Accept accepts a client's request with this queue pair.
//
// Errors: trp.ErrState unless the queue pair is in INIT and has no association;
// those of trp.Conn.Accept.
func (a *Association) Accept(now monotime.Time, c *trp.Conn, s wiretrp.Setup,
	maxSegment int) error {
	if !a.free() {
		return trp.ErrState
	}
	if err := c.Accept(now, a.upper(), s); err != nil {
		return err
	}
	a.take(c, s, maxSegment)
	a.settle(now)
	return nil
}

// free reports whether an association may begin; one that is over does not
// count.
func (a *Association) free() bool {
	return a.State() == ib.QPInit && (a.conn == nil || a.conn.State() >= trp.TimeWait)
}

func (a *Association) upper() segments {
	a.order.Discard()
	a.order = trp.NewInOrder(sequence{a}, a.reorder)
	return segments{a, a.order}
}

func (a *Association) take(c *trp.Conn, s wiretrp.Setup, maxSegment int) {
	a.Release()
	a.claims = 0
	a.conn, a.local, a.passed, a.settings = c, s, 0, urdmaSettings(maxSegment)
}

// begin takes the queue pair to RTS. One that the application has taken
// elsewhere meanwhile wants no association.
func (a *Association) begin(now monotime.Time) {
	if a.State() != ib.QPInit {
		a.conn.Abort(now)
		return
	}
	a.settings.Extensions = a.conn.Telling() // urdma has no immediate data
	a.Start(a.settings)
	remote := a.conn.Remote()
	attr := a.Attr
	// As in urdma: all requests that the peer has outstanding are served, even more than were
	// offered.
	attr.MaxDestRdAtomic = depthOf(max(a.local.IRD, remote.ORD))
	attr.MaxRdAtomic = depthOf(min(a.local.ORD, remote.IRD))
	for _, s := range []ib.QPState{ib.QPRTR, ib.QPRTS} {
		attr.State = s
		a.QP.Modify(now, &attr, ib.QPStateAttr|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	}
}

// maxDepth bounds the outstanding READs and atomics; urdma's limit is the same.
const maxDepth = 128

func depthOf(n uint16) uint8 { return uint8(min(n, maxDepth)) }

// Conn returns the association, nil if there is none.
func (a *Association) Conn() *trp.Conn { return a.conn }

// Release gives up the association, nil if there is none, for another owner to end. Its counts
// until now stay with the queue pair.
func (a *Association) Release() *trp.Conn {
	c := a.conn
	if c != nil {
		a.past.Add(c.Counters())
	}
	a.conn = nil
	return c
}

// PollLink returns the next event of the association.
func (a *Association) PollLink() (ev trp.Event, ok bool) {
	if len(a.link) == 0 {
		return trp.Event{}, false
	}
	ev = a.link[0]
	a.link = a.link[:copy(a.link, a.link[1:])]
	return ev, true
}

// Modify applies a legal modification. One to RESET ends the association.
func (a *Association) Modify(now monotime.Time, attr *ib.QPAttr, mask ib.QPAttrMask) {
	a.now = now
	if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset && a.conn != nil {
		a.conn.Abort(now)
	}
	a.QP.Modify(now, attr, mask)
	a.settle(now)
}

// Abort ends the association at once, as when the queue pair is destroyed.
func (a *Association) Abort(now monotime.Time) {
	a.now = now
	if a.conn != nil {
		a.conn.Abort(now)
		a.settle(now)
	}
}

// Disconnect closes the association when all that is posted has been sent and
// answered, and all that the peer asked for as well.
func (a *Association) Disconnect(now monotime.Time) {
	a.now = now
	a.QP.Disconnect(now)
	a.settle(now)
}

// Doorbell handles posted work.
func (a *Association) Doorbell(now monotime.Time) {
	a.now = now
	a.QP.Doorbell(now)
}

// HandleInput takes a datagram, whose bytes it does not keep, and its source.
func (a *Association) HandleInput(now monotime.Time, from netip.AddrPort, datagram []byte) {
	a.now = now
	if a.conn == nil {
		a.Count[DroppedState]++
		return
	}
	a.conn.HandleInput(now, from, datagram)
	a.settle(now)
}

// HandleRefused takes note that the network says that nobody has a port that a
// datagram went to.
func (a *Association) HandleRefused(now monotime.Time, at netip.AddrPort) {
	a.now = now
	if a.conn != nil {
		a.conn.HandleRefused(now, at)
		a.settle(now)
	}
}

// HandleTimeout acts on timers that have come due.
func (a *Association) HandleTimeout(now monotime.Time) {
	a.now = now
	a.QP.HandleTimeout(now)
	if a.conn != nil {
		if !now.Before(a.conn.NextTimeout()) {
			a.conn.HandleTimeout(now)
		}
		a.settle(now)
	}
}

// NextTimeout returns when HandleTimeout is due.
func (a *Association) NextTimeout() monotime.Time {
	if a.conn == nil {
		return a.QP.NextTimeout()
	}
	return min(a.QP.NextTimeout(), a.conn.NextTimeout())
}

// PollOutput fills the empty burst b; false if there is nothing to be sent now.
func (a *Association) PollOutput(now monotime.Time, b *trp.Burst) bool {
	a.now = now
	if a.conn == nil {
		return false
	}
	a.fill(now)
	ok := a.conn.PollOutput(now, b)
	a.settle(now)
	return ok
}

// fill queues segments as far as the window goes, and closes the association
// behind the last.
func (a *Association) fill(now monotime.Time) {
	for a.conn.Room() > 0 {
		head, p, ok := a.Peek(now)
		if !ok {
			if a.Closing() == Shut {
				a.conn.Close(now)
			}
			break
		}
		if len(p.Bytes) > 0 {
			a.head = append(append(a.head[:0], head...), p.Bytes...)
			head = a.head
		}
		if !a.conn.Send(head, p.Spans...) {
			panic("rdmap: the window told of room")
		}
		a.passed++
		a.Commit(now, a.passed)
	}
	a.abortIfDue(now)
}

func (a *Association) abortIfDue(now monotime.Time) {
	if a.Closing() == Abort {
		a.conn.Abort(now)
	}
}

// settle handles events of the association, and of the queue pair.
func (a *Association) settle(now monotime.Time) {
	if a.conn == nil {
		return
	}
	a.abortIfDue(now)
	if a.conn.State() > trp.Draining { // nothing more comes up
		a.order.Discard()
	}
	for {
		ev, ok := a.conn.PollEvent()
		if !ok {
			return
		}
		a.link = append(a.link, ev)
		switch ev.Kind {
		case trp.EventEstablished:
			a.begin(now)
		case trp.EventDisconnected:
			a.over(now, ev.Reason)
		}
	}
}

// over ends the queue pair with its association.
func (a *Association) over(now monotime.Time, r trp.Reason) {
	if !a.started { // reset
		return
	}
	switch r {
	case trp.LocalClose, trp.PeerClose:
		a.HandleClose(now, false)
	case trp.Timeout, trp.Refused:
		a.HandleSilence(now)
	case trp.BadMemory:
		a.HandleFault(now)
	default:
		a.HandleClose(now, true)
	}
}

func (a *Association) giveBackMemory() {
	if a.conn != nil {
		a.conn.GiveBack(a.now)
	}
}

// segments is the trp.Upper of an association.
type segments struct {
	*Association
	order *trp.InOrder
}

// HandleSegment takes a segment. The first one may show that the association is established. A
// message that finds no receive is not taken: it comes again, for as long as its sender tries. So a
// receiver may be late, as with InfiniBand.
func (s segments) HandleSegment(now monotime.Time, seq uint64, segment []byte) bool {
	s.settle(now)
	begins := wantsReceive(segment)
	if begins && s.claims >= s.RQ.Len() && s.receptive() {
		return false
	}
	s.claims += int(b2u(begins))
	ok := s.order.HandleSegment(now, seq, segment)
	if !ok {
		s.claims -= int(b2u(begins))
	}
	return ok
}

// wantsReceive reports whether a message begins with a segment for which a
// receive is needed.
func wantsReceive(segment []byte) bool {
	h, _, ok := wire.ParseHeader(segment)
	return ok && !h.Tagged && h.QN == wire.QNSend && h.MO == 0
}

func (s segments) HandleInOrder(now monotime.Time, next uint64) { s.order.HandleInOrder(now, next) }

func (s segments) HandleAcked(now monotime.Time, next uint64) { s.order.HandleAcked(now, next) }

// sequence takes the association's segments in order.
type sequence struct{ *Association }

// HandleNext takes the next segment. After an error of the queue pair none
// counts, but its end must come: they are taken all the same.
func (s sequence) HandleNext(now monotime.Time, segment []byte) bool {
	s.claims -= int(b2u(wantsReceive(segment)))
	s.BeginSegment(len(segment))
	s.SegmentData(segment)
	s.EndSegment(now)
	return true
}

func (s sequence) HandleAcked(now monotime.Time, next uint64) { s.HandleWritten(now, next) }

// AssociationCounterNames returns the names of the values of Association.AppendCounts.
func AssociationCounterNames() []string {
	return append(slices.Clone(counterNames[:]), trp.CounterNames()...)
}

// AppendCounts appends the counts of the queue pair and its associations.
func (a *Association) AppendCounts(counts []uint64) []uint64 {
	sum := a.past
	if a.conn != nil {
		sum.Add(a.conn.Counters())
	}
	return sum.Append(append(counts, a.Count[:]...))
}
