// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"log/slog"
	"syscall"

	"verbena/ib"
	"verbena/internal/queue"
)

// SendWR is a send work request. It and the types below have the fields of their namesakes in
// package verbs, in the same order.
type SendWR struct {
	ID             uint64
	Opcode         ib.WROpcode
	Flags          ib.SendFlags
	SGList         []ib.SGE
	Inline         []byte
	ImmData        uint32
	InvalidateRKey ib.RKey
	RemoteAddr     uint64
	RKey           ib.RKey
	CompareAdd     uint64
	Swap           uint64
	FlushType      ib.FlushType
	FlushLevel     ib.FlushLevel
	FlushLength    uint32
	AH             *AH
	RemoteQPN      ib.QPN
	RemoteQKey     ib.QKey
	RemoteSRQN     ib.SRQN
	Bind           *BindWR
	Reg            *RegWR
}

// BindWR binds a memory window to a part of a region: ibv_mw_bind.
type BindWR struct {
	ID     uint64
	Flags  ib.SendFlags
	MW     *MW
	MR     *MR
	Addr   uint64
	Length uint64
	Access ib.Access
	RKey   ib.RKey
}

// RegWR registers a region's mapped memory: ib_reg_wr.
type RegWR struct {
	MR     *MR
	Key    ib.RKey
	Access ib.Access
}

// RecvWR is a receive work request: ibv_recv_wr.
type RecvWR struct {
	ID     uint64
	SGList []ib.SGE
}

// PostSend posts send work requests in order: ibv_post_send(3).
func (q *QP) PostSend(wrs []SendWR) (posted int, err error) {
	if err := q.BeginSend(); err != nil {
		return 0, err
	}
	i, sends := 0, false
	for i < len(wrs) && q.quick(&wrs[i]) {
		if q.ctx.log != nil {
			q.ctx.log.sent(q, &wrs[i], nil)
		}
		sends = sends || wrs[i].Opcode != ib.WRRDMAWrite
		i++
	}
	if i == len(wrs) && !sends {
		q.conn.Unlock()
		return i, nil
	}
	for ; i < len(wrs); i++ {
		if err = q.Send(&wrs[i]); err != nil {
			break
		}
	}
	q.SubmitSends()
	return i, err
}

// quick makes a short WRITE or SEND at once, where the transport can; push finds its errors. The
// connection is locked. After SENDs it is to be submitted.
func (q *QP) quick(wr *SendWR) bool {
	limit := q.conn.ShortLimit(wr.Opcode)
	if limit == 0 || wr.Flags&^sendFlags != 0 || q.sq.Cap() == 0 {
		return false
	}
	m := q.conn.Short()
	m.ID, m.Op, m.Flags, m.Imm, m.Key, m.Addr = wr.ID, wr.Opcode, wr.Flags, wr.ImmData,
		wr.InvalidateRKey, wr.RemoteAddr
	if wr.Opcode == ib.WRRDMAWrite {
		m.Key = wr.RKey
	}
	if wr.Flags&ib.SendInline != 0 {
		if len(wr.SGList) != 0 || len(wr.Inline) > min(q.sq.MaxInline(), limit) {
			return false
		}
		m.Bytes = copy(m.Data[:], wr.Inline)
		return q.conn.PostShort()
	}
	if len(wr.SGList) != 1 || q.sq.MaxSGE() == 0 || wr.SGList[0].Length > uint32(limit) {
		return false
	}
	m.Local, m.Bytes = wr.SGList[0], int(wr.SGList[0].Length)
	v, ok := q.ctx.keys.GetLocal(&q.sent, q.pd.num, m.Local, m.Data[:m.Bytes])
	return v == ib.VendorNone && ok && q.conn.PostShort()
}

// BeginSend locks the queue pair for Send, or fails if it takes no sends. SubmitSends unlocks it.
func (q *QP) BeginSend() error { return q.beginSend("ibv_post_send") }

// beginSend is BeginSend of a verb that the log names. It is empty if the caller writes the line.
func (q *QP) beginSend(verb string) error {
	if q.mute != "" {
		return q.refused(verb, invalid("QP", "%s", q.mute))
	}
	q.conn.Lock()
	if q.gone.Load() { // read under the lock, which destroy takes
		q.conn.Unlock()
		return q.refused(verb, invalid("QP", "was destroyed"))
	}
	if s := q.conn.Machine().State(); s < ib.QPRTS {
		q.conn.Unlock()
		return q.refused(verb, invalid("QP", "is in %v: sends may be posted from RTS on", s))
	}
	return nil
}

// refused writes why the queue pair takes no sends to the log, and returns it.
func (q *QP) refused(verb string, err error) error {
	if verb != "" {
		q.ctx.logCall(verb, err, "qp", q)
	}
	return err
}

// SubmitSends starts the work posted since BeginSend, and unlocks the queue pair.
func (q *QP) SubmitSends() {
	before := q.submitted
	q.submitted = q.sq.Tail()
	q.conn.SubmitUnlock(int(q.submitted - min(before, q.submitted))) // RESET may have emptied it
}

// opBit maps an opcode to its bit; those from 64 on take the bits from 48.
func opBit(o ib.WROpcode) uint64 {
	if o >= 64 {
		o = o - 64 + 48
	}
	if o >= 64 {
		return 0
	}
	return 1 << o
}

func opBits(ops []ib.WROpcode) (m uint64) {
	for _, o := range ops {
		m |= opBit(o)
	}
	return m
}

const sendFlags = ib.SendFence | ib.SendSignaled | ib.SendSolicited | ib.SendInline

// Send checks a work request and puts it on the send queue. It allocates nothing and keeps no
// pointer. The caller has called BeginSend.
func (q *QP) Send(wr *SendWR) error {
	err := q.send(wr)
	if q.ctx.log != nil {
		q.ctx.log.sent(q, wr, err)
	}
	return err
}

func (q *QP) send(wr *SendWR) error {
	if q.ops&opBit(wr.Opcode) == 0 || wr.Flags&^sendFlags != 0 ||
		len(wr.SGList) > q.sq.MaxSGE() && wr.Flags&ib.SendInline == 0 {
		return q.refusal(wr)
	}
	w, ok := q.sq.Reserve()
	if !ok {
		return fail(syscall.ENOMEM, "send queue", "is full: %d work requests are posted",
			q.sq.Cap())
	}
	w.WRID, w.Opcode, w.Flags, w.Imm = wr.ID, wr.Opcode, wr.Flags, wr.ImmData
	w.InvalidateKey, w.RemoteAddr, w.RKey = wr.InvalidateRKey, wr.RemoteAddr, wr.RKey
	var err error
	switch wr.Opcode {
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		w.CompareAdd, w.Swap = wr.CompareAdd, wr.Swap
		err = q.pushData(w, wr)
	case ib.WRFlush:
		err = pushFlush(w, wr)
	case ib.WRLocalInv:
	case ib.WRBindMW:
		err = q.pushBind(w, wr.Bind, ib.MWType2)
	case ib.WRRegMR:
		err = q.pushReg(w, wr.Reg)
	default:
		err = q.pushData(w, wr)
	}
	if err == nil {
		switch q.init.Type {
		case ib.QPTypeUD:
			err = q.pushDatagram(w, wr)
		case ib.QPTypeXRCSend:
			err = pushRemoteSRQ(w, wr)
		}
	}
	if err != nil {
		return err
	}
	q.sq.Commit()
	return nil
}

// refusal returns the reason for which Send refuses a work request.
func (q *QP) refusal(wr *SendWR) error {
	switch {
	case q.ops&opBit(wr.Opcode) == 0:
		return invalid("Opcode", "%v is not an operation of %v queue pairs of %v devices",
			wr.Opcode, q.init.Type, q.ctx.info.Kind)
	case wr.Flags&^sendFlags != 0:
		return invalid("Flags", "unknown bits %#x", uint8(wr.Flags&^sendFlags))
	}
	return invalid("SGList", "%d elements: the queue pair has %d", len(wr.SGList), q.sq.MaxSGE())
}

// pushFlush takes the range of a FLUSH.
func pushFlush(w *queue.SendWQE, wr *SendWR) error {
	w.Flush, w.Level, w.Length = wr.FlushType, wr.FlushLevel, wr.FlushLength
	if wr.FlushType == 0 || wr.FlushType > ib.FlushGlobal|ib.FlushPersistent {
		return invalid("FlushType", "%d: FlushGlobal, FlushPersistent or both", wr.FlushType)
	}
	if wr.FlushLevel > ib.FlushMR {
		return invalid("FlushLevel", "%d: FlushRange or FlushMR", wr.FlushLevel)
	}
	return nil
}

// pushRemoteSRQ takes the destination of an XRC message.
func pushRemoteSRQ(w *queue.SendWQE, wr *SendWR) error {
	if wr.RemoteSRQN > maxSRQN {
		return invalid("RemoteSRQN", "%#x does not fit 24 bits", uint32(wr.RemoteSRQN))
	}
	w.SetRemoteSRQ(wr.RemoteSRQN)
	return nil
}

// pushData takes the local memory of a work request.
func (q *QP) pushData(w *queue.SendWQE, wr *SendWR) error {
	if wr.Flags&ib.SendInline == 0 {
		n, ok := queue.TotalLength(wr.SGList)
		if !ok {
			return invalid("SGList", "is longer than 2^31 bytes in all")
		}
		w.SGE, w.Length = append(w.SGE, wr.SGList...), n
		return nil
	}
	if wr.Opcode == ib.WRRDMARead || wr.Opcode == ib.WRAtomicCmpAndSwp ||
		wr.Opcode == ib.WRAtomicFetchAndAdd {
		return invalid("Flags", "SendInline does not go with %v, which writes local memory",
			wr.Opcode)
	}
	if len(wr.Inline) > q.sq.MaxInline() {
		return invalid("Inline", "%d bytes: the queue pair takes %d", len(wr.Inline),
			q.sq.MaxInline())
	}
	w.Inline = append(w.Inline, wr.Inline...)
	for _, g := range wr.SGList {
		if g.Length == 0 {
			continue
		}
		if uint64(len(w.Inline))+uint64(g.Length) > uint64(q.sq.MaxInline()) {
			return invalid("SGList", "more than the queue pair's %d bytes of inline data",
				q.sq.MaxInline())
		}
		s, v := q.ctx.keys.Local(q.pd.num, g, 0)
		if v != ib.VendorNone {
			return invalid("SGList", "%v", v)
		}
		at := len(w.Inline)
		w.Inline = w.Inline[:at+int(g.Length)]
		ok := s.CopyOut(0, w.Inline[at:])
		if s.Release(); !ok {
			return fail(syscall.EFAULT, "SGList", "%v", ib.VendorFault)
		}
	}
	w.Length = uint32(len(w.Inline))
	return nil
}

// pushDatagram takes the destination of a UD message.
func (q *QP) pushDatagram(w *queue.SendWQE, wr *SendWR) error {
	switch {
	case wr.AH == nil || wr.AH.pd.ctx != q.ctx || wr.AH.gone.Load():
		return invalid("AH", "must be an address handle of the queue pair's context")
	case wr.RemoteQPN > ib.QPMulticast:
		return invalid("RemoteQPN", "%#x does not fit 24 bits", uint32(wr.RemoteQPN))
	}
	w.RemoteQPN, w.QKey = wr.RemoteQPN, wr.RemoteQKey
	if wr.AH.pd != q.pd { // the completion says so
		return nil
	}
	g := &wr.AH.attr.GRH
	w.Dst, w.SGIDIndex, w.TrafficClass, w.HopLimit, w.FlowLabel = g.DGID.Addr(), g.SGIDIndex,
		g.TrafficClass, g.HopLimit, g.FlowLabel
	return nil
}

func (q *QP) pushBind(w *queue.SendWQE, b *BindWR, t ib.MWType) error {
	switch {
	case b == nil || b.MW == nil:
		return invalid("Bind.MW", "is missing")
	case b.MW.pd != q.pd: // Spec: IBTA vol. 1, C10-72
		return invalid("Bind.MW", "is not of the queue pair's protection domain")
	case b.MW.gone.Load():
		return invalid("Bind.MW", "was deallocated")
	case b.MW.Type() != t:
		return invalid("Bind.MW", "is of %v: a %v window is wanted here", b.MW.Type(), t)
	case b.MR == nil && b.Length > 0:
		return invalid("Bind.MR", "is missing")
	case b.MR != nil && b.MR.ctx != q.ctx:
		return invalid("Bind.MR", "belongs to another context")
	}
	w.Window, w.BindAddr, w.BindLen, w.Access, w.RKey = b.MW.window, b.Addr, b.Length,
		b.Access, b.RKey
	if b.MR != nil {
		w.Region = b.MR.region
	}
	return nil
}

func (q *QP) pushReg(w *queue.SendWQE, r *RegWR) error {
	if r == nil || r.MR == nil || r.MR.ctx != q.ctx {
		return invalid("Reg.MR", "must be a region of this context, from AllocMR")
	}
	w.Region, w.RKey, w.Access = r.MR.region, r.Key, r.Access
	return nil
}

// BindMW binds a type 1 window: ibv_bind_mw(3).
func (q *QP) BindMW(mw *MW, b BindWR) (err error) {
	defer func() { q.ctx.logCall("ibv_bind_mw", err, "qp", q, "wr_id", b.ID) }()
	b.MW = mw
	if err := q.beginSend(""); err != nil {
		return err
	}
	w, ok := q.sq.Reserve()
	if !ok {
		q.conn.Unlock()
		return fail(syscall.ENOMEM, "send queue", "is full: %d work requests are posted",
			q.sq.Cap())
	}
	w.WRID, w.Opcode, w.Flags = b.ID, ib.WRBindMW, b.Flags
	if err := q.pushBind(w, &b, ib.MWType1); err != nil {
		q.conn.Unlock()
		return err
	}
	q.sq.Commit()
	q.SubmitSends()
	return nil
}

// PostRecv posts receive work requests in order: ibv_post_recv(3).
func (q *QP) PostRecv(wrs []RecvWR) (posted int, err error) {
	if err := q.beginRecv(); err != nil {
		q.ctx.logCall("ibv_post_recv", err, "qp", q)
		return 0, err
	}
	for i := range wrs {
		if err = q.pushRecv(&wrs[i]); err != nil {
			break
		}
		posted++
	}
	q.conn.SubmitReceivesUnlock()
	return posted, err
}

// beginRecv locks the queue pair for pushRecv, if receives may be posted.
func (q *QP) beginRecv() error {
	if q.init.Type == ib.QPTypeXRCSend {
		return invalid("QP", "is XRC_SEND: it has no receive queue")
	}
	if q.init.Outside != nil {
		return invalid("QP", "has its receives posted by another")
	}
	if q.rq == nil {
		return invalid("QP", "takes its receives from an SRQ: post there")
	}
	q.conn.Lock()
	if q.gone.Load() {
		q.conn.Unlock()
		return invalid("QP", "was destroyed")
	}
	if q.conn.Machine().State() == ib.QPReset {
		q.conn.Unlock()
		return invalid("QP", "is in RESET: receives may be posted from INIT on")
	}
	return nil
}

func (q *QP) pushRecv(wr *RecvWR) error {
	err := q.putRecv(wr)
	if q.ctx.log != nil {
		q.ctx.log.received("ibv_post_recv", slog.Any("qpn", text{q.QPN()}), q, wr, err)
	}
	return err
}

func (q *QP) putRecv(wr *RecvWR) error {
	if len(wr.SGList) > q.rq.MaxSGE() {
		return invalid("SGList", "%d elements: the queue pair has %d", len(wr.SGList),
			q.rq.MaxSGE())
	}
	n, ok := queue.TotalLength(wr.SGList)
	if !ok {
		return invalid("SGList", "is longer than 2^31 bytes in all")
	}
	w, ok := q.rq.Reserve()
	if !ok {
		return fail(syscall.ENOMEM, "receive queue", "is full: %d work requests are posted",
			q.rq.Cap())
	}
	w.WRID, w.SGE, w.Length = wr.ID, append(w.SGE, wr.SGList...), n
	q.rq.Commit()
	return nil
}

// postingIn returns how the C library is to post receives in a state.
func postingIn(s ib.QPState) queue.Posting {
	switch s {
	case ib.QPReset:
		return queue.PostingRefused
	case ib.QPErr:
		return queue.PostingNotify
	}
	return queue.PostingFree
}

// ReceivesPosted flushes receives in the OutsideRecvQueue that were posted in the error state, or
// as the queue pair entered it. In RESET it forgets them.
func (q *QP) ReceivesPosted() {
	if q.init.Outside == nil {
		return
	}
	q.conn.Lock()
	if q.gone.Load() {
		q.conn.Unlock()
		return
	}
	if q.conn.Machine().State() == ib.QPReset {
		q.init.Outside.Drop()
	}
	q.conn.SubmitReceivesUnlock()
}
