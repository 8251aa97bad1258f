// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
)

// zeroSTag stands in messages of no bytes for a key that nobody looks at. Some hardware fails an
// ingress STag of 0 at any length (zrlio/softiwarp#21).
const zeroSTag ib.RKey = 1

// closeWait bounds how long a stream that is to be closed waits for the peer's
// end of it.
const closeWait = 5 * monotime.Second

// Settings holds the values that the set-up of the connection agreed on.
type Settings struct {
	MaxSegment int // bytes of a DDP segment with its header
	Initiator  bool
	RTR        mpa.RTR
	// Extensions says that the peer has RFC 7306: immediate data and atomics. We
	// serve them in any case.
	Extensions bool
	// Counted says that both ends know Control.More.
	Counted bool
	// Urdma says that the peer has atomics in any case, and as urdma has them: other
	// numbers, and no masks.
	Urdma bool
}

// Closing returns the action to take on the stream.
type Closing uint8

// Ways to close.
const (
	KeepOpen Closing = iota
	// Shut: when all output is written, no more follows: FIN. Input goes on.
	Shut
	// Abort: now, with unwritten output lost: RST.
	Abort
)

// QP is the protocol state of one queue pair.
type QP struct {
	qp.Core
	Count Counters

	set      Settings
	started  bool
	awaiting bool // a responder that has seen no FPDU yet: it may not send

	req   requester
	resp  responder
	rx    receiver
	out   outgoing
	nudge nudge

	placing []mem.Span // opened by Place; they outlive even a reset
	// giveBack, if not nil, is called before the application learns that work of
	// which something is on its way is over: no more of its memory may be read.
	giveBack func()

	closing    Closing
	disconnect bool          // the application wants the stream closed once all is sent
	closeTimer monotime.Time // when patience with the peer ends
}

// New returns a queue pair in the RESET state.
func New(c qp.Config) *QP {
	q := &QP{Core: qp.NewCore(c)}
	q.clear()
	return q
}

// clear forgets the stream.
func (q *QP) clear() {
	*q = QP{Core: q.Core, Count: q.Count, placing: q.placing, giveBack: q.giveBack,
		closeTimer: monotime.Never}
	q.nudge.heard()
	q.req = requester{sendMSN: 1, requestMSN: 1, cur: q.SQ.Head()}
	q.rx = receiver{sendMSN: 1, requestMSN: 1, atomicMSN: 1}
	q.resp.msn = 1
}

// Start gives the queue pair its stream. Requests go out from RTS on.
func (q *QP) Start(s Settings) {
	q.set, q.started = s, true
	q.awaiting = !s.Initiator
	q.req.rtrDue = s.Initiator && s.RTR != mpa.RTRNone
	q.req.ends = make([]uint64, q.SQ.Cap())
	q.nudge.on = s.Initiator && !s.Extensions && !s.Urdma // our own kind does not overlook anything
}

// PeerReady reports whether the peer has spoken since the set-up: a responder
// may send, and its connection is established.
func (q *QP) PeerReady() bool { return q.started && !q.awaiting }

// Counters returns the queue pair's counts.
func (q *QP) Counters() *Counters { return &q.Count }

// AppendCounts appends the queue pair's counts.
func (q *QP) AppendCounts(counts []uint64) []uint64 { return append(counts, q.Count[:]...) }

// Busy reports whether something is posted or owed to the peer that a sudden end
// of the stream would lose.
func (q *QP) Busy() bool {
	return q.SQ.Len() > 0 || len(q.resp.out) > 0 || q.resp.term == termDue || q.out.open
}

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
	attr.SQDraining = q.State() == ib.QPSQD && !q.drained()
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask) {
	q.SetAttributes(a, mask)
	if mask&ib.QPStateAttr == 0 || a.State == q.State() {
		return
	}
	switch from := q.State(); a.State {
	case ib.QPReset:
		q.Reset()
		q.clear()
	case ib.QPErr:
		if from != ib.QPErr {
			q.enterError(now, Shut)
		}
	default:
		q.Enter(a.State)
		q.req.drainRaised = false
		q.checkDrained()
	}
}

// enterError flushes all work. The caller has completed the request that failed.
func (q *QP) enterError(now monotime.Time, c Closing) {
	q.close(now, c)
	if q.State() == ib.QPErr {
		return
	}
	q.Enter(ib.QPErr)
	q.letGo()
	q.Flush()
	q.req.cur, q.req.reads = q.SQ.Head(), q.req.reads[:0]
	q.resp.out = q.resp.out[:0]
}

func (q *QP) letGo() {
	if q.giveBack != nil {
		q.giveBack()
	}
}

// fail is enterError with word to the application of why.
func (q *QP) fail(now monotime.Time, e ib.EventType, c Closing) {
	if q.State() != ib.QPErr {
		q.Raise(e)
	}
	q.enterError(now, c)
}

// close makes up its mind about the stream, once for all but to be harsher.
func (q *QP) close(now monotime.Time, c Closing) {
	if c > q.closing && q.started {
		q.closing = c
		if c == Shut {
			q.closeTimer = now.Add(closeWait)
		}
	}
	if c == Abort {
		q.closeTimer = monotime.Never
	}
}

// Disconnect closes the stream gracefully: when all that is posted is sent and
// answered, and all that the peer asked for as well.
func (q *QP) Disconnect(now monotime.Time) {
	q.disconnect = true
	if q.closeTimer == monotime.Never {
		q.closeTimer = now.Add(closeWait)
	}
	q.checkDisconnect(now)
}

func (q *QP) checkDisconnect(now monotime.Time) {
	if q.disconnect && q.SQ.Len() == 0 && len(q.resp.out) == 0 && !q.out.open {
		q.close(now, Shut)
	}
}

// Closing returns the action to take on the stream. Shut waits for the output: PollOutput must have
// returned false.
func (q *QP) Closing() Closing { return q.closing }

// HandleClose handles the end of the peer's side of the stream, or the loss of all of it.
func (q *QP) HandleClose(now monotime.Time, lost bool) {
	c := Shut
	if lost {
		c = Abort
	}
	q.enterError(now, c)
	q.closeTimer = monotime.Never
}

// HandleFault handles output that could not be moved because memory is not mapped any more. The
// stream may have stopped within a segment. The oldest work request whose bytes are on their way is
// taken to be the one.
func (q *QP) HandleFault(now monotime.Time) {
	if q.SQ.Len() > 0 && (q.SQ.At(0).State == wqeSent || q.SQ.At(0).State == wqeBegun) {
		q.letGo()
		q.CompleteSend(q.SQ.At(0), ib.WCLocProtErr, ib.VendorFault)
		q.SQ.PopFront()
	}
	q.fail(now, ib.EventQPFatal, Abort)
}

// HandleSilence handles a peer that acknowledges nothing any more. The oldest work request fails
// with that.
func (q *QP) HandleSilence(now monotime.Time) {
	if q.SQ.Len() > 0 && q.SQ.At(0).State != wqePosted {
		q.CompleteSend(q.SQ.At(0), ib.WCRetryExcErr, ib.VendorTimeout)
		q.SQ.PopFront()
	}
	q.HandleClose(now, true)
}

// Doorbell handles posted work. In the error state it is flushed.
func (q *QP) Doorbell(now monotime.Time) {
	if q.State() == ib.QPErr {
		q.FlushSends()
		q.FlushRecvs()
		q.req.cur = q.SQ.Head()
	}
}

// NextTimeout returns when HandleTimeout is due.
func (q *QP) NextTimeout() monotime.Time { return min(q.closeTimer, q.nudge.at) }

// HandleTimeout gives up waiting for the peer to close its side, or nudges it.
func (q *QP) HandleTimeout(now monotime.Time) {
	q.nudge.handleTimeout(now)
	if !now.Before(q.closeTimer) {
		q.enterError(now, Abort)
	}
}

// LayerError handles an error of the framing below: the stream ends with a Terminate.
func (q *QP) LayerError(now monotime.Time, e wire.TermError) {
	q.terminate(now, e, false, ib.EventQPFatal)
}
