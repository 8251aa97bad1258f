// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
)

// Conn is a queue pair of iWARP on a TCP stream, which it is given once the
// set-up has agreed on everything. One polling thread at a time reads bytes, the pumping
// thread writes them.
//
//	Stream ─ Connect ─► sock ── read:        Place, readv, HandlePlaced, HandleInput
//	                      │     FlushOutput: PollOutput, writev, HandleWritten
//	                      └──► leave: closed or reset when the machine says so; onClose
type Conn struct {
	engine.Conn

	// guarded by the lock
	fpdus   *rdmap.Stream // the machine
	in      *input
	sock    faultcap.Conn // nil in noStream
	id      uint64        // in the set
	state   streamState
	out     outputState
	w       *writer // output that the socket has not taken yet; nil if none
	reading bool    // a thread reads the socket, without the lock
	ended   ended   // while a thread wrote: the machine is notified after
	onReady func()  // nil once it was called, as the next
	onClose func()
}

// writer is the memory of one pump: a burst, and the part of it that is still to be written.
type writer struct {
	burst *mpa.Burst
	rest  [][]byte
	vec   tcp.Vectors
}

var writers = sync.Pool{New: func() any { return &writer{burst: mpa.NewBurst()} }}

// wrote takes n bytes off the front of the bytes to be written.
func (w *writer) wrote(n int) {
	for n > 0 && n >= len(w.rest[0]) {
		n -= len(w.rest[0])
		w.rest = w.rest[1:]
	}
	if n > 0 {
		w.rest[0] = w.rest[0][n:]
	}
}

// NewConn makes a queue pair of iWARP over TCP, which counts in counters. makeMachine is called
// with its number; onEvent later, without locks, with each event.
func (t *Transport) NewConn(counters *engine.DeviceCounters, makeMachine func(ib.QPN) *rdmap.Stream,
	onEvent func(ib.EventType), lane *engine.Lane) (*engine.Conn, error) {
	c := &Conn{}
	o := engine.ConnOptions{Counters: counters, OnEvent: onEvent, Lane: lane}
	err := t.eng.NewConn(&c.Conn, c, o,
		func(qpn ib.QPN) qp.Machine {
			c.fpdus = makeMachine(qpn)
			return c.fpdus
		})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// ConnOf returns the Conn of a queue pair of iWARP over TCP; ok is false for others.
func ConnOf(c *engine.Conn) (i *Conn, ok bool) {
	i, ok = c.Transport().(*Conn)
	return i, ok
}

// Connected is the information that a queue pair takes over with its stream.
type Connected struct {
	Settled    mpa.Settled
	Initiator  bool
	Extensions bool   // the peer has immediate data and atomics: RFC 7306
	First      []byte // written before any FPDU: a responder's Reply
	Early      []byte // bytes that came behind the set-up
	// OnReady is called when the peer's first FPDU has come. It is called once, as OnClose is and
	// before it, and of a responder only.
	OnReady func()
	// OnClose reports the end of the stream, by either side. The thread that finds out calls it
	// once, without locks; nothing calls it if the Conn is closed before.
	OnClose func()
}

// Connect gives a queue pair of iWARP that is in INIT a stream, which nobody else
// may use any more; it goes to RTS. check is asked as Modify asks it. With an
// error the stream is reset.
//
// Errors: check's; net.ErrClosed if the stream is, or the queue pair; EINVAL if
// it has a stream; such of a connection that is lost.
func (c *Conn) Connect(s *Stream, p Connected, check func(cur ib.QPState) error) error {
	if !s.use.take() {
		return net.ErrClosed
	}
	s.in.unwatch(s.sock.FD(), s.id)
	mss, err := s.sock.MSS()
	if err == nil && len(p.First) > 0 {
		err = send(s.sock, p.First)
	}
	if err == nil {
		err = c.connect(s, mss, &p, check)
	}
	if err != nil {
		s.sock.Abort()
	}
	return err
}

func (c *Conn) connect(s *Stream, mss int, p *Connected, check func(cur ib.QPState) error) error {
	c.Lock()
	err := check(c.fpdus.State())
	switch {
	case err != nil:
	case c.Closed():
		err = net.ErrClosed
	case c.state != noStream || c.fpdus.State() != ib.QPInit:
		err = fmt.Errorf("iwarp: a queue pair in state %v takes no stream: %w", c.fpdus.State(),
			syscall.EINVAL)
	default:
		c.id, err = s.in.watch(s.sock.FD(), tcp.WantRead, c)
	}
	if err != nil {
		c.Unlock()
		return err
	}
	if t, ok := s.sock.(*faultcap.Stream); ok {
		t.Name(c.QPN())
	}
	c.in, c.sock, c.onReady, c.onClose = s.in, s.sock, p.OnReady, p.OnClose
	if p.Initiator {
		c.onReady = nil
	}
	c.state, c.out, c.ended = streamOpen, outReady, notEnded
	now := monotime.Now()
	c.fpdus.Connect(p.Settled, p.Initiator, p.Extensions, longestFPDU(mss, p.Extensions))
	depths := ib.QPAttr{State: ib.QPRTR, MaxRdAtomic: uint8(min(p.Settled.ORD, 255)),
		MaxDestRdAtomic: uint8(min(p.Settled.IRD, 255))}
	c.fpdus.Modify(now, &depths, ib.QPStateAttr|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	c.fpdus.Modify(now, &ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr)
	if len(p.Early) > 0 {
		c.fpdus.HandleInput(now, p.Early)
		c.heard()
	}
	c.PumpUnlock(now)
	return nil
}

// longestFPDU returns the length of an FPDU that a stream with segments of mss bytes carries. Two
// ends with RFC 7306 read it in software, and gain nothing from FPDUs that fit a segment. No
// adapter says in its Request that it has it. The system sends many segments at once, so a header,
// a CRC and a piece of memory for each would be most of the work.
func longestFPDU(mss int, extensions bool) int {
	if extensions {
		return max(mss, softwareFPDU)
	}
	return mss
}

// softwareFPDU has room for 16 KiB of payload: four times as much made 64 KiB answers no faster. A
// message of 64 KiB is four FPDUs, without a short one at the end.
const softwareFPDU = 16<<10 + headerRoom

// Disconnect ends a queue pair's stream when all that is posted is sent and
// answered. OnClose follows when both ends are done.
func (c *Conn) Disconnect() {
	c.Lock()
	if c.Closed() || c.state == noStream {
		c.Unlock()
		return
	}
	now := monotime.Now()
	c.fpdus.Disconnect(now)
	c.PumpUnlock(now)
}

// FlushOutput implements engine.Transport. It writes until the machine has nothing more to send or
// the socket no more room. Then it ends or shuts the stream if the machine wants that.
func (c *Conn) FlushOutput(now monotime.Time) {
	for c.state.used() && !c.Closed() {
		if c.fpdus.Closing() == rdmap.Abort {
			c.leave(streamResetting)
			return
		}
		if c.out == outBlocked || c.w == nil && !c.fill(now) {
			return
		}
		c.write(now)
	}
}

// fill takes the next burst. Without one it sees to the end of a stream all of
// which is written.
func (c *Conn) fill(now monotime.Time) bool {
	w := writers.Get().(*writer)
	if c.fpdus.PollOutput(now, w.burst) {
		w.rest = w.burst.Iov()
		c.w = w
		return true
	}
	writers.Put(w)
	if c.fpdus.Closing() != rdmap.Shut {
		return false
	}
	if !c.state.weEnded() {
		c.state = c.state.afterOurEnd()
		// It fails if there is no connection any more: reading shows that.
		_ = c.sock.CloseWrite()
	}
	if c.state == streamBothEnded {
		c.leave(streamClosing)
	}
	return false
}

// write writes some of the burst. It gives mu back meanwhile.
func (c *Conn) write(now monotime.Time) {
	sock, w := c.sock, c.w
	c.out = outWriting
	c.Unlock()
	n, err := sock.Writev(&w.vec, w.rest)
	w.wrote(n)
	c.Lock()
	c.out = outReady
	if n > 0 {
		c.fpdus.HandleWritten(now, n)
	}
	if err == nil && len(w.rest) > 0 {
		c.out = outBlocked
		c.want()
	} else {
		switch {
		case err == syscall.EFAULT:
			c.fpdus.HandleFault(now)
		case err != nil:
			c.fpdus.HandleClose(now, true)
		}
		c.dropBurst()
	}
	c.handleEnd(now)
}

// endBy notes how the peer's side has ended. A peer may end the stream as soon as it has the data
// that is being written. The machine is notified of that data first, and so completes work that
// would be flushed else.
func (c *Conn) endBy(now monotime.Time, how ended) {
	c.ended = max(c.ended, how)
	if c.out != outWriting {
		c.handleEnd(now)
	}
}

func (c *Conn) handleEnd(now monotime.Time) {
	if how := c.ended; how != notEnded {
		c.ended = notEnded
		c.fpdus.HandleClose(now, how == lost)
	}
}

func (c *Conn) dropBurst() {
	if c.w != nil {
		c.w.rest = nil
		c.w.burst.Reset()
		writers.Put(c.w)
		c.w = nil
	}
}

// want makes the set wait for the events that the stream needs.
func (c *Conn) want() {
	var i tcp.Interest
	if !c.state.peerEnded() {
		i |= tcp.WantRead
	}
	if c.out == outBlocked {
		i |= tcp.WantWrite
	}
	if err := c.in.set.Change(c.sock.FD(), c.id, i); err != nil {
		c.fpdus.HandleClose(monotime.Now(), true) // nobody would be told of anything
	}
}

// leave gives the socket up, at once or when the thread that reads it is done.
func (c *Conn) leave(how streamState) {
	c.state = how
	if !c.reading {
		c.left()
	}
}

// left carries out leave's decision.
func (c *Conn) left() {
	c.in.unwatch(c.sock.FD(), c.id)
	if c.state == streamResetting {
		c.sock.Abort()
	} else {
		c.sock.Close()
	}
	c.sock, c.state, c.out = nil, noStream, outReady
	c.dropBurst()
	c.tell(&c.onClose)
}

// heard looks whether the peer has spoken.
func (c *Conn) heard() {
	if c.onReady != nil && c.fpdus.PeerReady() {
		c.tell(&c.onReady)
	}
}

// tell makes deliver call f, once, after its pending calls.
func (c *Conn) tell(f *func()) {
	before, next := c.After(), *f
	*f = nil
	switch {
	case next == nil:
	case before == nil:
		c.SetAfter(next)
	default:
		c.SetAfter(func() { before(); next() })
	}
}

// ready handles the set's events.
func (c *Conn) ready(in *input, ev tcp.Event) (n int) {
	if ev.Writable {
		c.Lock()
		if c.out == outBlocked && !c.Closed() {
			c.out = outReady
			c.want()
		}
		c.PumpUnlock(monotime.Now())
	}
	if ev.Readable {
		n = c.read(in)
	}
	return n
}

// read takes arrived bytes, and returns how many times there were some. The caller holds rxMu.
func (c *Conn) read(in *input) (n int) {
	for range policy.StreamTurn {
		some, more := c.readOnce(in)
		if some {
			n++
		}
		if !more {
			break
		}
	}
	return n
}

// readOnce takes the bytes of one system call. It reports whether there were some, and whether
// there may be more.
func (c *Conn) readOnce(in *input) (some, more bool) {
	c.Lock()
	if c.Closed() || !c.state.readable() {
		c.Unlock()
		return false, false
	}
	iov, placed := c.fpdus.Place(in.iov[:0], in.gaps[:])
	pieces := len(iov)
	buf := in.buf[:readAhead(c.fpdus, placed, len(in.buf))]
	iov = append(iov, buf)
	c.reading = true
	in.blocked = in.blocked || c.out == outBlocked
	sock := c.sock
	c.Unlock()

	got, err := sock.Readv(&in.vec, iov)

	now := monotime.Now()
	c.Lock()
	c.reading = false
	if placed > 0 {
		c.fpdus.HandlePlaced(now, iov[:pieces], min(got, placed))
	}
	if got > placed {
		c.fpdus.HandleInput(now, buf[:got-placed])
	}
	c.heard()
	in.iov = iov[:0]
	clear(iov) // its memory may be unmapped once the lock is gone
	unplaceable := err == syscall.EFAULT && placed > 0
	switch {
	case unplaceable:
		c.fpdus.Unplaceable()
	case err != nil:
		c.readFailed(now, err)
	}
	if c.state.leaving() {
		c.left()
	}
	if got == 0 && err == nil {
		c.DeliverUnlock()
		return false, false
	}
	c.Heard(now)
	c.PumpUnlock(now)
	// or unmapped memory came next: the system reports the rest again
	all := got < placed+len(buf)
	return got > 0 && !unplaceable, unplaceable || got > 0 && !all
}

// readFailed handles the end of the stream, or its loss.
func (c *Conn) readFailed(now monotime.Time, err error) {
	if err != io.EOF {
		c.endBy(now, lost)
		return
	}
	c.state = c.state.afterPeersEnd()
	c.endBy(now, inOrder)
	if c.state.used() {
		c.want()
	}
}

// NotePost implements engine.Transport.
func (c *Conn) NotePost() {}

// FlushDelayedAck implements engine.Transport.
func (c *Conn) FlushDelayedAck(monotime.Time) {}

// PrepareModify implements engine.Transport.
func (c *Conn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask,
	_ netip.Addr) (func(monotime.Time), error) {
	return func(now monotime.Time) {
		if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset {
			c.quit(streamResetting)
		}
		c.fpdus.Modify(now, attr, mask)
	}, nil
}

// quit gives the socket up when no thread uses it, which is bounded by one system call.
func (c *Conn) quit(how streamState) {
	c.AwaitUnless(func() bool { return !c.Pumping() && !c.reading })
	if c.state != noStream {
		c.leave(how)
	}
}

// Route implements engine.Transport: the path is as the system's TCP has it.
func (c *Conn) Route() engine.Route {
	if !c.state.used() {
		return engine.Route{}
	}
	r := engine.Route{Via: engine.ViaTCP, Local: c.sock.Local(), Peer: c.sock.Remote()}
	if p, err := c.sock.Path(); err == nil {
		r.Path = &p
	}
	return r
}

// Detach implements engine.Transport: it closes the stream gracefully only where nothing is
// lost by it.
func (c *Conn) Detach() (release func()) {
	how := streamClosing
	if c.w != nil || c.fpdus.Busy() {
		how = streamResetting
	}
	c.quit(how)
	c.SetAfter(nil)
	return func() {}
}
