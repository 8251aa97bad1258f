package rdmap

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wiretrp "verbena/internal/wire/trp"
)

// Association is a queue pair on a TRP association: one DDP segment a datagram,
// as urdma has it. Beside the methods below it has those of QP that concern work
// requests and state.
//
//	Dial, Accept                   the set-up; PollLink tells what comes of it
//	HandleInput(now, from, bytes)  a datagram
//	PollOutput(now, *trp.Burst)    fills one train; call until it returns false
//	Disconnect(now)                sends what is posted, then the FIN
//
// Segments that arrive before their turn are held back in copies, so that the
// queue pair takes them in order. A WRITE or SEND is complete when the peer's
// queue pair has it; until then its memory is read again if something is lost.
type Association struct {
	*QP
	conn     *trp.Conn // nil without
	order    *trp.InOrder
	settings Settings
	passed   uint64 // segments given to conn
	head     []byte // scratch
	now      monotime.Time
	link     []trp.Event
}

// NewAssociation returns a queue pair in the RESET state, without an
// association.
func NewAssociation(c qp.Config) *Association {
	a := &Association{QP: New(c)}
	a.QP.giveBack = a.giveBackMemory
	return a
}

// urdmaSettings are those of all associations: neither end has to speak first,
// as TRP's own set-up is confirmed.
func urdmaSettings(maxSegment int) Settings {
	return Settings{MaxSegment: min(maxSegment, trp.MaxSegmentBytes), Initiator: true, Extensions: true, Urdma: true}
}

// Dial asks a server for an association. maxSegment is the longest DDP segment
// to be sent, with its headers.
//
// Errors: trp.ErrState while there is an association; those of trp.Dial.
func (a *Association) Dial(now monotime.Time, cfg trp.Config, server netip.AddrPort, s wiretrp.Setup, maxSegment int) error {
	if a.busy() {
		return trp.ErrState
	}
	up := a.upper()
	c, err := trp.Dial(now, cfg, up, server, s)
	if err == nil {
		a.take(c, up, maxSegment)
	}
	return err
}

// Accept accepts a client's request with this queue pair. It must be ready to
// receive, as segments may come at once.
//
// Errors: trp.ErrState while there is an association; those of trp.Conn.Accept.
func (a *Association) Accept(now monotime.Time, c *trp.Conn, s wiretrp.Setup, maxSegment int) error {
	if a.busy() {
		return trp.ErrState
	}
	up := a.upper()
	if err := c.Accept(now, up, s); err != nil {
		return err
	}
	a.take(c, up, maxSegment)
	a.settle(now)
	return nil
}

func (a *Association) busy() bool {
	return a.conn != nil && a.conn.State() != trp.TimeWait && a.conn.State() != trp.Closed
}

func (a *Association) upper() segments {
	return segments{a, trp.NewInOrder(sequence{a})}
}

func (a *Association) take(c *trp.Conn, up segments, maxSegment int) {
	a.conn, a.order, a.passed, a.settings = c, up.order, 0, urdmaSettings(maxSegment)
}

// Conn returns the association, nil if there is none.
func (a *Association) Conn() *trp.Conn { return a.conn }

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

// Doorbell tells that work was posted.
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

// ready reports whether segments may come and go. Until then a client does not
// confirm the Accept, so that the server sends none.
func (a *Association) ready() bool { return a.State() != ib.QPReset && a.State() != ib.QPInit }

// PollOutput fills the empty train b; false if there is nothing to be sent now.
func (a *Association) PollOutput(now monotime.Time, b *trp.Burst) bool {
	a.now = now
	if a.conn == nil || a.conn.State() == trp.Established && !a.ready() {
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

// settle takes in what happened to the association, and to the queue pair.
func (a *Association) settle(now monotime.Time) {
	if a.conn == nil {
		return
	}
	a.abortIfDue(now)
	for {
		ev, ok := a.conn.PollEvent()
		if !ok {
			return
		}
		a.link = append(a.link, ev)
		switch ev.Kind {
		case trp.EventEstablished:
			a.Start(a.settings)
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
	case trp.Timeout:
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

// HandleSegment takes no segment before its time: it comes again.
func (s segments) HandleSegment(now monotime.Time, seq uint64, segment []byte) bool {
	s.settle(now)
	return s.ready() && s.order.HandleSegment(now, seq, segment)
}

func (s segments) HandleInOrder(now monotime.Time, next uint64) { s.order.HandleInOrder(now, next) }

func (s segments) HandleAcked(now monotime.Time, next uint64) { s.HandleWritten(now, next) }

// sequence is what stands above the order of segments.
type sequence struct{ *Association }

// HandleNext takes the next segment. After an error of the queue pair none
// counts, but its end must come: they are taken all the same.
func (s sequence) HandleNext(now monotime.Time, segment []byte) bool {
	s.BeginSegment(len(segment))
	s.SegmentData(segment)
	s.EndSegment(now)
	return true
}

func (s sequence) HandleAcked(now monotime.Time, next uint64) { s.HandleWritten(now, next) }
