package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// QP is the protocol state of one reliable connected queue pair.
type QP struct {
	roce.Config

	state  ib.QPState
	attr   ib.QPAttr // as modified; what Query returns
	path   *roce.Path
	mtu    int
	events []ib.EventType
	count  roce.Counters
	comEst bool // EventCommEst was raised

	req  requester
	resp responder
}

// maxEvents bounds the events kept for PollEvent: each kind is raised at most
// once between two modifications.
const maxEvents = 8

// New returns a queue pair in the RESET state.
func New(c roce.Config) *QP {
	q := &QP{Config: c, state: ib.QPReset}
	q.req.timer, q.req.rnrTimer = monotime.Never, monotime.Never
	return q
}

// State returns the state of the queue pair.
func (q *QP) State() ib.QPState { return q.state }

// Counters returns the queue pair's counts.
func (q *QP) Counters() *roce.Counters { return &q.count }

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.attr
	attr.State, attr.CurState = q.state, q.state
	attr.SQPSN = q.req.next
	attr.RQPSN = q.resp.epsn
	attr.SQDraining = q.state == ib.QPSQD && !q.req.drained
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path) {
	cur := &q.attr
	if mask&ib.QPAccessFlags != 0 {
		cur.AccessFlags = a.AccessFlags
	}
	if mask&ib.QPPKeyIndex != 0 {
		cur.PKeyIndex = a.PKeyIndex
	}
	if mask&ib.QPPort != 0 {
		cur.PortNum = a.PortNum
	}
	if mask&ib.QPAV != 0 {
		cur.AH, q.path = a.AH, path
	}
	if mask&ib.QPPathMTU != 0 {
		cur.PathMTU, q.mtu = a.PathMTU, a.PathMTU.Bytes()
	}
	if mask&ib.QPDestQPN != 0 {
		cur.DestQPN = a.DestQPN
	}
	if mask&ib.QPRQPSN != 0 {
		q.resp.start(a.RQPSN)
	}
	if mask&ib.QPMaxDestRdAtomic != 0 {
		cur.MaxDestRdAtomic = a.MaxDestRdAtomic
	}
	if mask&ib.QPMinRNRTimer != 0 {
		cur.MinRNRTimer = a.MinRNRTimer
	}
	if mask&ib.QPSQPSN != 0 {
		q.req.start(a.SQPSN, q.SQ.Head())
	}
	if mask&ib.QPTimeout != 0 {
		cur.Timeout = a.Timeout
	}
	if mask&ib.QPRetryCnt != 0 {
		cur.RetryCnt, q.req.retries = a.RetryCnt, a.RetryCnt
	}
	if mask&ib.QPRNRRetry != 0 {
		cur.RNRRetry, q.req.rnrRetries = a.RNRRetry, a.RNRRetry
	}
	if mask&ib.QPMaxQPRdAtomic != 0 {
		cur.MaxRdAtomic = a.MaxRdAtomic
	}
	if mask&ib.QPEnSQDAsyncNotify != 0 {
		cur.EnSQDAsyncNotify = a.EnSQDAsyncNotify
	}
	if mask&ib.QPStateAttr != 0 && a.State != q.state {
		q.setState(a.State)
	}
}

// setState enters a state that the object layer or a fault chose.
func (q *QP) setState(s ib.QPState) {
	from := q.state
	q.state = s
	switch s {
	case ib.QPReset:
		q.discard()
		*q = QP{Config: q.Config, state: ib.QPReset, count: q.count}
		q.req.timer, q.req.rnrTimer = monotime.Never, monotime.Never
	case ib.QPSQD:
		q.req.drained = false
		q.checkDrained()
	case ib.QPErr:
		if from != ib.QPErr {
			q.flush()
		}
	}
}

// discard drops what is posted without completing it, as RESET does.
func (q *QP) discard() {
	for q.SQ.Len() > 0 {
		q.SQ.PopFront()
	}
	for !q.SRQ && q.RQ.Pop(&q.resp.recv) {
	}
}

// fail takes the queue pair to the error state and tells the application why.
func (q *QP) fail(e ib.EventType) {
	if q.state == ib.QPErr {
		return
	}
	q.raise(e)
	q.setState(ib.QPErr)
}

func (q *QP) raise(e ib.EventType) {
	if len(q.events) < maxEvents {
		q.events = append(q.events, e)
	}
}

// PollEvent returns the next asynchronous event.
func (q *QP) PollEvent() (ib.EventType, bool) {
	if len(q.events) == 0 {
		return 0, false
	}
	e := q.events[0]
	q.events = q.events[:copy(q.events, q.events[1:])]
	return e, true
}

// flush completes all posted work with WR_FLUSH_ERR, in queue order.
//
// Spec: IBTA vol. 1, 10.3.1.7 Error state.
func (q *QP) flush() {
	q.req.timer, q.req.rnrTimer = monotime.Never, monotime.Never
	for q.SQ.Len() > 0 {
		q.completeSend(q.SQ.At(0), ib.WCWRFlushErr, ib.VendorQPState)
		q.SQ.PopFront()
	}
	q.req.cur = q.SQ.Head()
	q.resp.out = q.resp.out[:0]
	if q.resp.recvHeld {
		q.resp.recvHeld = false
		q.completeRecvErr(ib.WCWRFlushErr, ib.VendorQPState)
	}
	if q.SRQ {
		q.raise(ib.EventQPLastWQEReached)
		return
	}
	q.flushRecvs()
}

func (q *QP) flushRecvs() {
	for q.RQ.Pop(&q.resp.recv) {
		q.completeRecvErr(ib.WCWRFlushErr, ib.VendorQPState)
	}
}

// Doorbell tells that work was posted.
func (q *QP) Doorbell(now monotime.Time) {
	if q.state == ib.QPErr {
		q.flushPosted()
	}
}

// flushPosted flushes work posted in the error state.
func (q *QP) flushPosted() {
	for q.SQ.Len() > 0 {
		q.completeSend(q.SQ.At(0), ib.WCWRFlushErr, ib.VendorQPState)
		q.SQ.PopFront()
	}
	q.req.cur = q.SQ.Head()
	if !q.SRQ {
		q.flushRecvs()
	}
}

// HandleInput takes one packet for this queue pair whose ICRC is right.
func (q *QP) HandleInput(now monotime.Time, p *wire.Packet, m *roce.Meta) {
	q.count[roce.RcvdPackets]++
	q.count[roce.RcvdBytes] += uint64(len(p.Payload))
	if m.CE() {
		q.count[roce.CEMarked]++
	}
	switch {
	case p.Info.Service == wire.ServiceCNP:
		q.count[roce.RcvdCNP]++
		return
	case p.Info.Service != wire.ServiceRC:
		q.count[roce.UnexpectedPacket]++
		return
	case q.state < ib.QPRTR:
		q.count[roce.DroppedState]++
		return
	case m.Src != q.path.Dst || m.Dst != q.path.Src:
		q.count[roce.WrongSource]++
		return
	case !p.PKey.Matches(ib.DefaultPKey):
		q.count[roce.WrongPKey]++
		return
	}
	if p.Info.Response {
		q.handleResponse(now, p)
		return
	}
	if q.state == ib.QPErr {
		q.repeatFatalNAK(p)
		return
	}
	if q.state == ib.QPRTR && !q.comEst {
		q.comEst = true
		q.raise(ib.EventCommEst)
	}
	q.handleRequest(p)
}

// PollOutput fills b with the next train: responses first, as a requester
// elsewhere waits for them, then requests.
func (q *QP) PollOutput(now monotime.Time, b *roce.Burst) bool {
	if q.path == nil || q.state < ib.QPRTR {
		return false
	}
	q.pollResponses(b)
	if b.Len() == 0 && (q.state == ib.QPRTS || q.state == ib.QPSQD) {
		q.pollRequests(now, b)
	}
	q.count[roce.SentPackets] += uint64(b.Len())
	q.count[roce.SentBytes] += uint64(b.Bytes())
	return b.Len() > 0
}

// NextTimeout returns when HandleTimeout is due.
func (q *QP) NextTimeout() monotime.Time { return min(q.req.timer, q.req.rnrTimer) }

// HandleTimeout acts on timers that have come due.
func (q *QP) HandleTimeout(now monotime.Time) {
	if !now.Before(q.req.rnrTimer) {
		q.req.rnrTimer = monotime.Never
	}
	if !now.Before(q.req.timer) {
		q.handleAckTimeout(now)
	}
}

// bth returns the base header common to all packets sent.
func (q *QP) bth(op wire.Opcode, psn ib.PSN) wire.BTH {
	// Deviation: none; hardware sends MigReq 1 where no path migration is set up.
	return wire.BTH{Opcode: op, MigReq: true, PKey: ib.DefaultPKey, DestQP: q.attr.DestQPN, PSN: psn}
}

// completeSend reports the fate of a send work request.
func (q *QP) completeSend(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	if s == ib.WCSuccess && !q.SignalAll && w.Flags&ib.SendSignaled == 0 {
		return
	}
	wc := ib.WC{WRID: w.WRID, Status: s, Opcode: ib.WCOf(w.Opcode), VendorErr: v, QPN: q.QPN}
	switch w.Opcode {
	case ib.WRRDMARead:
		wc.ByteLen = w.Length
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		wc.ByteLen = 8
	}
	q.SendCQ.Push(&wc, s != ib.WCSuccess)
}

func (q *QP) completeRecvErr(s ib.WCStatus, v ib.VendorErr) {
	wc := ib.WC{WRID: q.resp.recv.WRID, Status: s, Opcode: ib.WCRecv, VendorErr: v, QPN: q.QPN}
	q.RecvCQ.Push(&wc, true)
}
