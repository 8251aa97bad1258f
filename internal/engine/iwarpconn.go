// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
)

// iwarpConn is a queue pair of iWARP on a TCP stream, which it is given once the
// set-up has agreed on everything. Bytes are read by who polls, one thread at a
// time, and written by who pumps.
//
//	Stream ─ Connect ─► sock ── read:  Place, readv, HandlePlaced, HandleInput
//	                      │     drain: PollOutput, writev, HandleWritten
//	                      └──► leave: closed or reset when the machine says so; onClose
type iwarpConn struct {
	Conn

	// guarded by mu
	fpdus   *rdmap.Stream // Conn.machine
	in      *tcpInput
	sock    faultcap.Conn // nil without a stream
	id      uint64        // in the set
	w       *writer       // what the socket has not taken yet; nil if nothing
	blocked bool          // until there is room in the socket
	eof     bool          // the peer's side has ended
	shut    bool          // ours has
	reading bool          // a thread reads the socket, without mu
	writing bool          // a thread writes to it, without mu
	ended   ended         // while one did: the machine is told after
	leaving leaving       // to be carried out by who reads
	onReady func()        // nil once it was called, as the next
	onClose func()

	// guarded by tcpInput.rxMu
	header headerFirst
}

// ended is how the peer's side of a stream has ended.
type ended uint8

const (
	notEnded ended = iota
	inOrder
	lost
)

// leaving is how a socket is given up.
type leaving uint8

const (
	stay leaving = iota
	closing
	resetting
)

// writer is the memory of one pump: a burst, and what of it is still to be
// written.
type writer struct {
	burst *mpa.Burst
	rest  [][]byte
	vec   tcp.Vectors
}

var writers = sync.Pool{New: func() any { return &writer{burst: mpa.NewBurst()} }}

// wrote takes n bytes off the front of what is to be written.
func (w *writer) wrote(n int) {
	for n > 0 && n >= len(w.rest[0]) {
		n -= len(w.rest[0])
		w.rest = w.rest[1:]
	}
	if n > 0 {
		w.rest[0] = w.rest[0][n:]
	}
}

// NewIWARPConn makes a queue pair of iWARP over TCP. Its counters go to the
// account. makeMachine is called with its number; onEvent later, without locks,
// with each event.
func (e *Engine) NewIWARPConn(account *Account, makeMachine func(ib.QPN) *rdmap.Stream, onEvent func(ib.EventType)) (*Conn, error) {
	c := &iwarpConn{}
	err := e.newConn(account, onEvent, &c.Conn, func(qpn ib.QPN) {
		c.fpdus = makeMachine(qpn)
		c.machine, c.way, c.iwarp = c.fpdus, c, c
	})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// Connected is what makes a stream a queue pair's.
type Connected struct {
	Settled    mpa.Settled
	Initiator  bool
	Extensions bool   // the peer has immediate data and atomics: RFC 7306
	First      []byte // written before any FPDU: a responder's Reply
	Early      []byte // bytes that came behind the set-up
	// OnReady tells that the peer has spoken: its first FPDU has come. It is called
	// once, as OnClose is and before it, and of a responder only.
	OnReady func()
	// OnClose tells that the stream has ended, whoever ended it. It is called once,
	// by whoever finds out, without locks; not at all if the Conn is closed before.
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
		err = c.iwarp.connect(s, mss, &p, check)
	}
	if err != nil {
		s.sock.Abort()
	}
	return err
}

func (c *iwarpConn) connect(s *Stream, mss int, p *Connected, check func(cur ib.QPState) error) error {
	c.mu.Lock()
	err := check(c.machine.State())
	switch {
	case err != nil:
	case c.closed:
		err = net.ErrClosed
	case c.sock != nil || c.machine.State() != ib.QPInit:
		err = fmt.Errorf("engine: a queue pair in %v is given a stream: %w", c.machine.State(), syscall.EINVAL)
	default:
		c.id, err = s.in.watch(s.sock.FD(), tcp.WantRead, c)
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	c.in, c.sock, c.onReady, c.onClose = s.in, s.sock, p.OnReady, p.OnClose
	if p.Initiator {
		c.onReady = nil
	}
	c.blocked, c.eof, c.shut, c.leaving, c.ended = false, false, false, stay, notEnded
	now := monotime.Now()
	c.fpdus.Connect(p.Settled, p.Initiator, p.Extensions, mss)
	depths := ib.QPAttr{State: ib.QPRTR, MaxRdAtomic: uint8(min(p.Settled.ORD, 255)), MaxDestRdAtomic: uint8(min(p.Settled.IRD, 255))}
	c.fpdus.Modify(now, &depths, ib.QPStateAttr|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	c.fpdus.Modify(now, &ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr)
	if len(p.Early) > 0 {
		c.fpdus.HandleInput(now, p.Early)
		c.heard()
	}
	c.pump(now)
	return nil
}

// Disconnect ends a queue pair's stream when all that is posted is sent and
// answered. OnClose follows when both ends are done.
func (c *Conn) Disconnect() {
	c.mu.Lock()
	if c.closed || c.iwarp.sock == nil {
		c.mu.Unlock()
		return
	}
	now := monotime.Now()
	c.iwarp.fpdus.Disconnect(now)
	c.pump(now)
}

// drain writes until the machine has nothing more to send or the socket no more
// room, and does with the stream what the machine wants done.
func (c *iwarpConn) drain(now monotime.Time) {
	for c.sock != nil && c.leaving == stay && !c.closed {
		if c.fpdus.Closing() == rdmap.Abort {
			c.leave(resetting)
			return
		}
		if c.blocked || c.w == nil && !c.fill(now) {
			return
		}
		c.write(now)
	}
}

// fill takes the next burst. Without one it sees to the end of a stream all of
// which is written.
func (c *iwarpConn) fill(now monotime.Time) bool {
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
	if !c.shut {
		c.shut = true
		// It fails where there is no connection any more: reading tells.
		_ = c.sock.CloseWrite()
	}
	if c.eof {
		c.leave(closing)
	}
	return false
}

// write writes some of the burst. It gives mu back meanwhile.
func (c *iwarpConn) write(now monotime.Time) {
	sock, w := c.sock, c.w
	c.writing = true
	c.mu.Unlock()
	n, err := sock.Writev(&w.vec, w.rest)
	w.wrote(n)
	c.mu.Lock()
	c.writing = false
	if n > 0 {
		c.fpdus.HandleWritten(now, n)
	}
	if err == nil && len(w.rest) > 0 {
		c.blocked = true
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

// endBy notes how the peer's side has ended. A peer may end the stream as soon as it
// has what is being written: the machine is told of that first, and so completes
// what would be flushed else.
func (c *iwarpConn) endBy(now monotime.Time, how ended) {
	c.ended = max(c.ended, how)
	if !c.writing {
		c.handleEnd(now)
	}
}

func (c *iwarpConn) handleEnd(now monotime.Time) {
	if how := c.ended; how != notEnded {
		c.ended = notEnded
		c.fpdus.HandleClose(now, how == lost)
	}
}

func (c *iwarpConn) dropBurst() {
	if c.w != nil {
		c.w.rest = nil
		c.w.burst.Reset()
		writers.Put(c.w)
		c.w = nil
	}
}

// want has the set wait for what there is to wait for.
func (c *iwarpConn) want() {
	var i tcp.Interest
	if !c.eof {
		i |= tcp.WantRead
	}
	if c.blocked {
		i |= tcp.WantWrite
	}
	if err := c.in.set.Change(c.sock.FD(), c.id, i); err != nil {
		c.fpdus.HandleClose(monotime.Now(), true) // nobody would be told of anything
	}
}

// leave gives the socket up, at once or when who reads it is done.
func (c *iwarpConn) leave(how leaving) {
	c.leaving = how
	if !c.reading {
		c.left()
	}
}

// left carries out what leave decided.
func (c *iwarpConn) left() {
	c.in.unwatch(c.sock.FD(), c.id)
	if c.leaving == resetting {
		c.sock.Abort()
	} else {
		c.sock.Close()
	}
	c.sock, c.leaving, c.blocked = nil, stay, false
	c.dropBurst()
	c.tell(&c.onClose)
}

// heard looks whether the peer has spoken.
func (c *iwarpConn) heard() {
	if c.onReady != nil && c.fpdus.PeerReady() {
		c.tell(&c.onReady)
	}
}

// tell has deliver call f, once, behind what it has to call already.
func (c *iwarpConn) tell(f *func()) {
	before, next := c.after, *f
	*f = nil
	switch {
	case next == nil:
	case before == nil:
		c.after = next
	default:
		c.after = func() { before(); next() }
	}
}

// ready handles what the set says.
func (c *iwarpConn) ready(in *tcpInput, ev tcp.Event) (n int) {
	if ev.Writable {
		c.mu.Lock()
		if c.blocked && c.sock != nil && !c.closed {
			c.blocked = false
			c.want()
		}
		c.pump(monotime.Now())
	}
	if ev.Readable {
		n = c.read(in)
	}
	return n
}

// readsPerTurn bounds what one connection reads before others get their turn.
const readsPerTurn = 16

// read takes what has come. The caller holds rxMu.
func (c *iwarpConn) read(in *tcpInput) (n int) {
	for range readsPerTurn {
		c.mu.Lock()
		if c.closed || c.sock == nil || c.eof || c.leaving != stay {
			c.mu.Unlock()
			break
		}
		iov, placed := c.fpdus.Place(in.iov[:0])
		pieces := len(iov)
		buf := in.buf[:c.header.buffer(c.fpdus, placed, len(in.buf))]
		iov = append(iov, buf)
		c.reading = true
		sock := c.sock
		c.mu.Unlock()

		got, err := sock.Readv(&in.vec, iov)
		again := false

		now := monotime.Now()
		c.mu.Lock()
		c.reading = false
		if placed > 0 {
			c.fpdus.HandlePlaced(iov[:pieces], min(got, placed))
		}
		if got > placed {
			c.fpdus.HandleInput(now, buf[:got-placed])
		}
		c.heard()
		in.iov = iov[:0]
		clear(iov) // what it named may be unmapped once the lock is gone
		switch {
		case err == nil:
		case err == io.EOF:
			c.eof = true
			c.endBy(now, inOrder)
			if c.leaving == stay {
				c.want()
			}
		case err == syscall.EFAULT && placed > 0:
			c.fpdus.Unplaceable()
			again = true
		default:
			c.endBy(now, lost)
		}
		if c.leaving != stay {
			c.left()
		}
		if again {
			c.pump(now)
			continue
		}
		if got == 0 {
			if err != nil {
				c.pump(now)
			} else {
				c.deliver()
			}
			break
		}
		n++
		all := got < placed+len(buf) // or memory that is not mapped came next: the system tells again of what is left
		c.header.read(c.fpdus, all)
		c.pump(now)
		if all {
			break
		}
	}
	return n
}

// headerFirst decides how much is read of which nobody knows where it belongs:
// the next headers, so that payload is then read straight to its place. Where
// small segments come faster than they are read, many are read at a time and
// copied.
type headerFirst struct {
	small int // reads in a row that were of small segments and left something
}

const (
	// largeSegment is from where on a system call a segment costs less than copying
	// it.
	largeSegment = 8 << 10
	// headerRoom is what stands between the payloads of two segments: pad, CRC,
	// length, headers.
	headerRoom = 32
	// smallReads show that small segments queue up: fewer are the ends of large
	// messages, or what announces them.
	smallReads = 8
)

// buffer returns how many bytes to read behind those placed, of all that there is
// room for.
func (h *headerFirst) buffer(s *rdmap.Stream, placed, all int) int {
	if h.small < smallReads {
		return min(s.Rest()-placed+headerRoom, all)
	}
	return all
}

// read notes a read that brought something, and whether that was all there
// was.
func (h *headerFirst) read(s *rdmap.Stream, all bool) {
	switch {
	case s.SegmentBytes() >= largeSegment, h.small < smallReads && all:
		h.small = 0
	case h.small < smallReads:
		h.small++
	}
}

func (c *iwarpConn) posted() {}

func (c *iwarpConn) settle(monotime.Time) {}

func (c *iwarpConn) modification(attr *ib.QPAttr, mask ib.QPAttrMask, _ netip.Addr) (func(monotime.Time), error) {
	return func(now monotime.Time) {
		if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset {
			c.quit(resetting)
		}
		c.fpdus.Modify(now, attr, mask)
	}, nil
}

// quit gives the socket up when nobody uses it.
func (c *iwarpConn) quit(how leaving) {
	for c.pumping || c.reading { // one system call
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	if c.sock != nil {
		c.leave(how)
	}
}

// end closes the stream gracefully only where nothing is lost by it.
func (c *iwarpConn) end() (release func()) {
	how := closing
	if c.w != nil || c.fpdus.Busy() {
		how = resetting
	}
	c.quit(how)
	c.after = nil
	return func() {}
}
