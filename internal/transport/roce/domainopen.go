// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"io/fs"
	"sync"

	"verbena/ib"
	"verbena/internal/sys/xrcfile"
)

// Opened is an XRC_RECV queue pair of another process, which that process serves. Calls wait for
// its answer, as long as it lives.
type Opened struct {
	// immutable after Open
	domain  *Domain
	qpn     ib.QPN
	onEvent func(ib.EventType)
	link    *xrcfile.Link
	replies chan []byte   // one
	done    chan struct{} // closed at the end of the link

	calls sync.Mutex // one at a time

	mu     sync.Mutex
	closed bool // guarded by mu
}

// NewOpened returns a queue pair of another process that Open is yet to open. onEvent is called
// with its events, and with ib.EventQPFatal when its process has gone.
func (d *Domain) NewOpened(n ib.QPN, onEvent func(ib.EventType)) *Opened {
	return &Opened{domain: d, qpn: n, onEvent: onEvent, replies: make(chan []byte, 1),
		done: make(chan struct{})}
}

// Open opens the queue pair: ibv_open_qp(3). It is the first call, and the last if it fails.
//
// Errors: fs.ErrNotExist if no process of the domain has such a queue pair; those of the system.
func (o *Opened) Open() error {
	d := o.domain
	slot := d.roce.slotOf(o.qpn)
	if d.place == nil || slot == d.roce.rings.Slot() {
		return fs.ErrNotExist
	}
	link, err := d.place.Dial(slot, o, func() bool { return true })
	if err != nil {
		return err
	}
	o.link = link
	m := domainMessage{op: opOpen, qpn: o.qpn}
	if m.send(link) == nil {
		b, _ := o.reply()
		if m, ok := parseDomainMessage(b); ok && m.op == opServed && m.qpn == o.qpn {
			return nil
		}
	}
	o.Close()
	return fs.ErrNotExist
}

// QPN returns the number.
func (o *Opened) QPN() ib.QPN { return o.qpn }

// Modify is ibv_modify_qp(3). The errors are those of the process that has the queue pair, and
// fs.ErrClosed if that has gone.
func (o *Opened) Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error {
	b, ok := o.call((&attrMessage{Mask: mask, Attr: *attr}).append(opModify), opModified)
	if !ok {
		return fs.ErrClosed
	}
	return refused(b)
}

// Query returns the attributes. ok is false if the process that has the queue pair has gone.
func (o *Opened) Query() (attr ib.QPAttr, ok bool) {
	b, ok := o.call([]byte{opQuery}, opAttr)
	if !ok {
		return attr, false
	}
	m, ok := parseAttrMessage(b)
	return m.Attr, ok
}

// Close ends Open. No event is raised afterwards.
func (o *Opened) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.link.Close()
}

// call asks, and returns the rest of the answer.
func (o *Opened) call(b []byte, want uint8) ([]byte, bool) {
	o.calls.Lock()
	defer o.calls.Unlock()
	if o.link.Send(b) != nil {
		return nil, false
	}
	b, ok := o.reply()
	if !ok || len(b) == 0 || b[0] != want {
		return nil, false
	}
	return b[1:], true
}

// reply waits for an answer. It reports false if the link has ended without one.
func (o *Opened) reply() ([]byte, bool) {
	select {
	case b := <-o.replies:
		return b, true
	case <-o.done:
	}
	select {
	case b := <-o.replies:
		return b, true
	default:
		return nil, false
	}
}

// Message implements xrcfile.Handler.
func (o *Opened) Message(b []byte) {
	if len(b) > 0 && b[0] == opEvent {
		if len(b) == 2 {
			o.raise(ib.EventType(b[1]))
		}
		return
	}
	select {
	case o.replies <- append([]byte(nil), b...):
	default: // nothing was asked
	}
}

func (o *Opened) raise(e ib.EventType) {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	if !closed {
		o.onEvent(e)
	}
}

// End implements xrcfile.Handler.
func (o *Opened) End() {
	close(o.done)
	o.raise(ib.EventQPFatal)
}
