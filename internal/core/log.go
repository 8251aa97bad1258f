// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"

	"verbena/ib"
)

// NewLog returns a log of the lines of a level and above, by name: debug, info or warn. With
// an empty name it returns nil.
func NewLog(w io.Writer, level string) (Log, error) {
	if level == "" {
		return nil, nil
	}
	l, ok := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warn": slog.LevelWarn}[level]
	if !ok {
		return nil, fmt.Errorf("%q: must be debug, info or warn", level)
	}
	o := slog.HandlerOptions{Level: l, ReplaceAttr: microseconds}
	return LogTo(slog.New(slog.NewTextHandler(w, &o))), nil
}

// microseconds writes the time of a line as exactly as captures need it. The handler's own form has
// milliseconds.
func microseconds(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	return a
}

// Log writes the verbs of this process's devices. It is an interface so that the linker leaves its
// code out of a program that has none.
//
// Work requests and completions are written with the queue pair locked, and package rdmacm writes
// with its identifier locked. So the handler of the log must call neither package.
type Log interface {
	// of returns the log of a device.
	of(device string) Log
	// call writes a call that made, changed or removed an object, or one that was refused.
	call(verb string, err error, args ...any)
	// asked writes a query, or why it was refused.
	asked(verb string, err error)
	// sent writes a posted send work request, or why it was refused. The queue pair is locked.
	sent(q *QP, wr *SendWR, err error)
	// received writes a posted receive work request, or why it was refused. q is nil where the
	// receive is shared, else locked.
	received(verb string, queue slog.Attr, q *QP, wr *RecvWR, err error)
	// completed writes a completion, whose queue pair is locked.
	completed(c *Context, wc *ib.WC)
	// raised writes an asynchronous event, whose queue pair may be locked.
	raised(e *AsyncEvent)
	// connection writes an event of the connection manager.
	connection(e *ConnEvent)
}

// LogTo returns a Log of a logger, nil for nil.
func LogTo(l *slog.Logger) Log {
	if l == nil {
		return nil
	}
	return verbLog{l}
}

// logOf returns the log of a device, nil without one.
func logOf(l Log, device string) Log {
	if l == nil {
		return nil
	}
	return l.of(device)
}

// logCall writes a call of the context or of an object of it.
func (c *Context) logCall(verb string, err error, args ...any) {
	if c.log != nil {
		c.log.call(verb, err, args...)
	}
}

// LogQuery writes a call that changed no object.
func (c *Context) LogQuery(verb string, err error) {
	if c.log != nil {
		c.log.asked(verb, err)
	}
}

// verbLog is a Log.
type verbLog struct{ to *slog.Logger }

func (l verbLog) of(device string) Log { return verbLog{l.to.With("device", device)} }

func (l verbLog) wants(level slog.Level) bool { return l.to.Enabled(context.Background(), level) }

func (l verbLog) call(verb string, err error, args ...any) {
	if err != nil {
		if l.wants(slog.LevelWarn) {
			l.to.Warn(verb, append(ofQP(args), "error", err)...)
		}
		return
	}
	if !l.wants(slog.LevelInfo) {
		return
	}
	// The values lock queue pairs. A handler has a lock of its own perhaps, for which lines wait
	// that are written with the queue pair locked.
	for i, a := range args {
		if v, ok := a.(slog.LogValuer); ok {
			args[i] = slog.AnyValue(v).Resolve()
		}
	}
	l.to.Info(verb, args...)
}

func (l verbLog) asked(verb string, err error) {
	switch {
	case err != nil:
		l.to.Warn(verb, "error", err)
	case l.wants(slog.LevelDebug):
		l.to.Debug(verb)
	}
}

// ofQP returns the queue pair among the arguments of a refused call, with its value of now. A call
// that made none has none.
func ofQP(args []any) (of []any) {
	for i := 1; i < len(args); i += 2 {
		if q, ok := args[i].(*QP); ok && q != nil {
			of = append(of, args[i-1], slog.AnyValue(q).Resolve())
		}
	}
	return of
}

func (l verbLog) sent(q *QP, wr *SendWR, err error) {
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	if !l.wants(level) {
		return
	}
	n := len(wr.Inline)
	for i := range wr.SGList {
		n += int(wr.SGList[i].Length)
	}
	attrs := []slog.Attr{slog.Any("qpn", text{q.QPN()}), slog.Uint64("wr_id", wr.ID),
		slog.Any("opcode", text{wr.Opcode}), slog.Int("bytes", n)}
	switch {
	case err != nil:
		attrs = append(ofPeer(attrs, q, wr.AH), slog.Any("error", err))
	case wr.Flags&ib.SendSignaled == 0 && !q.init.SignalAll: // success makes no completion
		attrs = append(attrs, slog.Bool("signaled", false))
	}
	l.to.LogAttrs(context.Background(), level, "ibv_post_send", attrs...)
}

func (l verbLog) received(verb string, queue slog.Attr, q *QP, wr *RecvWR, err error) {
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	if !l.wants(level) {
		return
	}
	n := 0
	for i := range wr.SGList {
		n += int(wr.SGList[i].Length)
	}
	attrs := []slog.Attr{queue, slog.Uint64("wr_id", wr.ID), slog.Int("bytes", n)}
	if err != nil {
		attrs = append(ofPeer(attrs, q, nil), slog.Any("error", err))
	}
	l.to.LogAttrs(context.Background(), level, verb, attrs...)
}

// ofPeer appends the peer of a queue pair, which is locked. ah is the address of a datagram. Both
// may be nil.
func ofPeer(attrs []slog.Attr, q *QP, ah *AH) []slog.Attr {
	if ah != nil {
		return append(attrs, slog.Any("peer", ah))
	}
	if q == nil || q.target != nil {
		return attrs
	}
	var a ib.QPAttr
	q.conn.Machine().Query(&a)
	return appendPeer(attrs, q.conn.PeerLocked(), a.DestQPN)
}

// appendPeer appends a peer's address. Over a link, which has none, it is the queue pair's number.
func appendPeer(attrs []slog.Attr, p netip.AddrPort, n ib.QPN) []slog.Attr {
	switch {
	case p.IsValid():
		attrs = append(attrs, slog.Any("peer", text{p}))
	case n != 0:
		attrs = append(attrs, slog.Any("peer_qpn", text{n}))
	}
	return attrs
}

func (l verbLog) completed(c *Context, wc *ib.WC) {
	level := slog.LevelDebug
	if wc.Status != ib.WCSuccess && wc.Status != ib.WCWRFlushErr {
		level = slog.LevelWarn
	}
	if !l.wants(level) {
		return
	}
	attrs := []slog.Attr{slog.Any("qpn", text{wc.QPN}), slog.Uint64("wr_id", wc.WRID),
		slog.Any("status", text{wc.Status})}
	switch {
	case wc.Status == ib.WCSuccess:
		attrs = append(attrs, slog.Any("opcode", text{wc.Opcode}),
			slog.Int("bytes", int(wc.ByteLen)))
	case level == slog.LevelWarn:
		attrs = append(attrs, slog.Any("reason", text{wc.VendorErr}))
		attrs = ofPeer(attrs, c.NumberedQP(wc.QPN), nil)
	}
	l.to.LogAttrs(context.Background(), level, "completion", attrs...)
}

func (l verbLog) raised(e *AsyncEvent) {
	if !l.wants(slog.LevelWarn) {
		return
	}
	attrs := []slog.Attr{slog.Any("type", text{e.Type})}
	switch {
	case e.QP != nil:
		attrs = append(attrs, slog.Any("qpn", text{e.QP.QPN()}))
		attrs = append(attrs, e.QP.whyEvent(e.Type)...)
	case e.CQ != nil:
		attrs = append(attrs, slog.String("reason", "completions were lost"),
			slog.Int("depth", e.CQ.Depth()))
	case e.SRQ != nil:
		attrs = append(attrs, slog.Uint64("srqn", uint64(e.SRQ.num)))
	case e.Port != 0:
		attrs = append(attrs, slog.Int("port", e.Port))
	}
	l.to.LogAttrs(context.Background(), slog.LevelWarn, "asynchronous event", attrs...)
}

// whyEvent returns the peer of a queue pair that has raised an event, and the reason of a failure.
func (q *QP) whyEvent(e ib.EventType) []slog.Attr {
	if q.away != nil {
		return nil
	}
	c := q.conn.Cause()
	if c == nil {
		return nil
	}
	attrs := appendPeer(nil, c.Peer, c.PeerQPN)
	switch e {
	case ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr:
		if c.Reason != ib.VendorNone {
			attrs = append(attrs, slog.Any("reason", text{c.Reason}))
		}
	}
	return attrs
}

// text is a value that is logged by its name.
type text struct{ fmt.Stringer }

func (t text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// logModify logs ibv_modify_qp, with the PSN of the first packet if that is set: by it the packets
// of a capture find their work requests.
func (q *QP) logModify(attr *ib.QPAttr, mask ib.QPAttrMask, err error) {
	args := []any{"qp", q}
	if attr != nil && mask&ib.QPSQPSN != 0 {
		args = append(args, "sq_psn", text{attr.SQPSN})
	}
	q.ctx.logCall("ibv_modify_qp", err, args...)
}

// LogValue returns the queue pair's number, type, state and peer.
func (q *QP) LogValue() slog.Value {
	if q.away != nil {
		return slog.GroupValue(slog.Any("qpn", text{q.QPN()}), slog.Any("type", text{q.init.Type}))
	}
	a, r, _ := q.conn.Look()
	v := []slog.Attr{slog.Any("qpn", text{q.QPN()}), slog.Any("type", text{q.init.Type}),
		slog.Any("state", text{a.State})}
	if r.Peer.IsValid() {
		v = append(v, slog.Any("peer", text{r.Peer}))
	}
	if a.DestQPN != 0 {
		v = append(v, slog.Any("peer_qpn", text{a.DestQPN}))
	}
	return slog.GroupValue(v...)
}

// LogValue returns the region's keys and place.
func (m *MR) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lkey", fmt.Sprintf("%#x", uint32(m.LKey()))),
		slog.String("rkey", fmt.Sprintf("%#x", uint32(m.RKey()))),
		slog.String("addr", fmt.Sprintf("%#x", m.Addr())), slog.Uint64("length", m.Length()))
}

// LogValue returns the address that the handle is for.
func (a *AH) LogValue() slog.Value { return slog.StringValue(a.attr.GRH.DGID.String()) }
