// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"net/netip"
	"sync"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/roce/raw"
	"verbena/internal/steer"
	"verbena/internal/sys/packet"
)

// Conn is a raw packet queue pair.
type Conn struct {
	engine.Conn
	link *link // immutable
	// spread has the work queues that get the frames; nil for others. It is set before the first
	// flow.
	spread *spread

	// guarded by the lock
	frames *raw.QP // the machine
	rest   *frame  // that the interface has not taken yet; nil if there is none
}

// frame is the memory of a frame that is being sent.
type frame struct {
	buf [packet.MaxBytes]byte
	n   int
}

var pool = sync.Pool{New: func() any { return new(frame) }}

// newConn makes a queue pair.
//
// Errors: those of packet.OpenSender; no number is left.
func (t *Transport) newConn(q *engine.QPSpec) (*engine.Conn, error) {
	l, err := t.link(q.Interface)
	if err != nil {
		return nil, err
	}
	longest, err := l.sender.Longest()
	if err != nil {
		l.leave()
		return nil, err
	}
	c := &Conn{link: l}
	o := engine.ConnOptions{Counters: q.Counters, OnEvent: q.OnEvent, Lane: q.Lane}
	err = t.eng.NewConn(&c.Conn, c, o, func(n ib.QPN) qp.Machine {
		c.frames = raw.New(q.Config(n), longest)
		return c.frames
	})
	if err != nil {
		l.leave()
		return nil, err
	}
	return &c.Conn, nil
}

// retryAfter is the time after which a socket that took no frame is asked again. At 10 Gb/s
// about 40 frames have left meanwhile.
const retryAfter = 50 * monotime.Microsecond

// FlushOutput implements engine.Transport.
func (c *Conn) FlushOutput(now monotime.Time) {
	for !c.Closed() {
		f := c.rest
		if f == nil {
			if f = c.next(now); f == nil {
				return
			}
		}
		c.rest = nil
		c.Unlock()
		full, err := c.link.sender.Send(f.buf[:f.n])
		if err != nil {
			c.link.of.unsent.Add(1)
		}
		c.Lock()
		if full {
			c.rest = f
			c.RetryAt(now.Add(retryAfter))
			return
		}
		pool.Put(f)
	}
}

// next returns the machine's next frame, nil if there is none.
func (c *Conn) next(now monotime.Time) *frame {
	f := pool.Get().(*frame)
	var ok bool
	if f.n, ok = c.frames.PollFrame(now, f.buf[:]); ok {
		return f
	}
	pool.Put(f)
	return nil
}

// take takes a frame that arrived, with the tag of its flow.
func (c *Conn) take(now monotime.Time, frame []byte, tag uint32) {
	c.Lock()
	if !c.Closed() {
		c.frames.HandleFrame(now, frame, tag)
	}
	c.DeliverUnlock()
}

// NotePost implements engine.Transport.
func (c *Conn) NotePost() {}

// FlushDelayedAck implements engine.Transport.
func (c *Conn) FlushDelayedAck(monotime.Time) {}

// PrepareModify implements engine.Transport. A change of state takes over the interface's MTU.
func (c *Conn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask,
	_ netip.Addr) (func(monotime.Time), error) {
	longest, err := c.link.sender.Longest()
	return func(now monotime.Time) {
		if err == nil { // else the interface has gone
			c.frames.SetMaxFrame(longest)
		}
		if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset {
			c.AwaitPump()
			c.drop()
		}
		c.frames.Modify(now, attr, mask)
	}, nil
}

// drop forgets the frame that the interface has not taken.
func (c *Conn) drop() {
	if c.rest != nil {
		pool.Put(c.rest)
		c.rest = nil
	}
}

// Route implements engine.Transport.
func (c *Conn) Route() engine.Route { return engine.Route{Via: engine.ViaPacketSocket} }

// Detach implements engine.Transport.
func (c *Conn) Detach() (release func()) {
	c.drop()
	return func() {
		c.link.remove(func(r *steer.Rule[*Flow]) bool { return r.To.conn == c })
		c.link.leave()
	}
}
