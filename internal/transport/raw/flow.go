// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/steer"
	"verbena/internal/sys/packet"
	"verbena/internal/wire/ether"
)

// Flow steers frames to a queue pair.
type Flow struct {
	// immutable after AddFlow
	conn    *Conn
	rule    *steer.Rule[*Flow]
	address packet.Address // of the frames that the interface is to pass
	admits  bool           // there is an address

	packets, bytes atomic.Uint64 // of frames that were steered
}

// Count returns the number of frames that were steered, or their bytes.
func (f *Flow) Count(what ib.CounterKind) uint64 {
	if what == ib.CounterBytes {
		return f.bytes.Load()
	}
	return f.packets.Load()
}

// AddFlow has frames that arrive go to a raw packet queue pair, until Remove or until the queue
// pair is closed.
//
// Errors: those of steer.NewRule and Table.With; EPERM without CAP_NET_RAW; others of the system.
func AddFlow(c *engine.Conn, a *ib.FlowAttr) (*Flow, error) {
	f := &Flow{conn: c.Transport().(*Conn)}
	var err error
	if f.rule, err = steer.NewRule(a, f); err != nil {
		return nil, err
	}
	mac, one, anyGroup, all := f.rule.Destination()
	f.admits = one || anyGroup || all
	switch {
	case all:
		f.address = packet.Any
	case anyGroup:
		f.address = packet.AnyGroup
	default:
		f.address = packet.Address{MAC: mac}
	}
	return f, f.conn.link.add(f)
}

// Remove ends the flow. A frame that a thread is steering at this moment may still arrive.
func (f *Flow) Remove() {
	f.conn.link.remove(func(r *steer.Rule[*Flow]) bool { return r.To == f })
}

// take gives a frame to the queue pair, or to one of its work queues.
func (f *Flow) take(now monotime.Time, h *ether.Headers) {
	f.packets.Add(1)
	f.bytes.Add(uint64(len(h.Frame)))
	if f.rule.Drops() {
		return
	}
	c := f.conn
	if s := c.spread; s != nil {
		c = s.to[int(s.hash.Of(h))&(len(s.to)-1)]
	}
	c.take(now, h.Frame, f.rule.Tag())
}

// add adds a flow to the table.
func (l *link) add(f *Flow) error {
	l.of.mu.Lock()
	err := l.addLocked(f)
	unused := l.takeUnusedLocked()
	l.of.mu.Unlock()
	l.of.end(unused)
	return err
}

func (l *link) addLocked(f *Flow) (err error) {
	if l.in == nil {
		if l.in, err = openInput(l); err != nil {
			return err
		}
	}
	table, err := l.in.table.Load().With(f.rule)
	if err == nil && f.admits {
		err = l.in.recv.Admit(f.address)
	}
	if err == nil {
		l.in.table.Store(table)
	}
	return err
}

// remove removes flows from the table.
func (l *link) remove(gone func(*steer.Rule[*Flow]) bool) {
	l.of.mu.Lock()
	if in := l.in; in != nil {
		in.table.Store(in.table.Load().Without(func(r *steer.Rule[*Flow]) bool {
			if !gone(r) {
				return false
			}
			if r.To.admits {
				_ = in.recv.Refuse(r.To.address) // the interface may have gone, and all with it
			}
			return true
		}))
	}
	unused := l.takeUnusedLocked()
	l.of.mu.Unlock()
	l.of.end(unused)
}

// takeUnusedLocked takes the input out if it has no flow.
func (l *link) takeUnusedLocked() (unused *input) {
	if in := l.in; in != nil && in.table.Load().Len() == 0 {
		l.of.dropped += in.recv.TakeDropped()
		l.in = nil
		return in
	}
	return nil
}

// end ends an input, if it is not nil. The caller holds no lock: that of the thread which reads is
// waited for.
func (t *Transport) end(in *input) {
	if in != nil {
		t.eng.RemoveInput(in)
	}
}
