// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/sys/xrcfile"
)

// Other processes of a domain open the XRC_RECV queue pairs of this one: ibv_open_qp(3). A link has
// one of them. The other process asks, and this one answers before the next question:
//
//	"open" QPN ──► opened, or refused
//	"modify" mask, attributes ──► done: errno, argument and reason of a refusal
//	"query" ──► attributes
//	       ◄── event
//
// The end of the link ends that.

// Lent is a queue pair that another process has opened.
type Lent interface {
	Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error
	Query() ib.QPAttr
	// Return is the last call.
	Return()
}

// Lender returns the queue pair of a number for another process, nil if there is none. onEvent is
// called with its events. It does not block.
type Lender func(n ib.QPN, onEvent func(ib.EventType)) Lent

// attrMessage is the rest of messages that have attributes. All fields are of a fixed size.
type attrMessage struct {
	Mask ib.QPAttrMask
	Attr ib.QPAttr
}

func (m *attrMessage) append(op uint8) []byte {
	b, err := binary.Append([]byte{op}, binary.LittleEndian, m)
	if err != nil {
		panic(err)
	}
	return b
}

func parseAttrMessage(b []byte) (m attrMessage, ok bool) {
	if len(b) != binary.Size(&m) {
		return m, false
	}
	_, err := binary.Decode(b, binary.LittleEndian, &m)
	return m, err == nil
}

// refusal returns the message that says how a modification ended.
func refusal(err error) []byte {
	var e *device.Error
	if !errors.As(err, &e) {
		e = &device.Error{Arg: "QP", Err: syscall.EIO}
		if err == nil {
			e.Err = syscall.Errno(0)
		} else {
			e.Why = err.Error()
		}
	}
	b := binary.LittleEndian.AppendUint32([]byte{opModified}, uint32(e.Err))
	b = append(append(append(b, e.Arg...), 0), e.Why...)
	return b[:min(len(b), xrcfile.MaxMessage)]
}

// refused is the error that a message of refusal says, nil if there was none.
func refused(b []byte) error {
	if len(b) < 4 {
		return &device.Error{Arg: "QP", Why: "its process answers nonsense", Err: syscall.EIO}
	}
	errno := syscall.Errno(binary.LittleEndian.Uint32(b))
	if errno == 0 {
		return nil
	}
	arg, why, _ := bytes.Cut(b[4:], []byte{0})
	return &device.Error{Arg: string(arg), Why: string(why), Err: errno}
}

// lending is a queue pair that another process has opened by a link.
type lending struct {
	link   *xrcfile.Link
	qp     Lent
	busy   atomic.Bool
	events chan ib.EventType // maxLentEvents: more are dropped

	sending sync.Mutex // events are sent in order
}

const maxLentEvents = 16

// lend opens a queue pair of this process for the caller.
func (c *caller) lend(n ib.QPN) {
	l := &lending{link: c.link, events: make(chan ib.EventType, maxLentEvents)}
	if c.domain.lend != nil {
		l.qp = c.domain.lend(n, l.event)
	}
	reply := domainMessage{op: opRefused}
	switch {
	case l.qp == nil:
	case !c.domain.addLending(l):
		l.qp.Return()
	default:
		reply = domainMessage{op: opServed, qpn: n}
		c.mu.Lock()
		c.lending = l
		c.mu.Unlock()
	}
	_ = reply.send(c.link) // the link ends if that fails
}

func (d *Domain) addLending(l *lending) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lendings != nil {
		d.lendings[l] = struct{}{}
	}
	return d.lendings != nil
}

// endLending returns a queue pair, unless Domain.Leave does it.
func (d *Domain) endLending(l *lending) {
	d.mu.Lock()
	_, ours := d.lendings[l]
	delete(d.lendings, l)
	d.mu.Unlock()
	if ours {
		l.qp.Return()
	}
}

// event passes an event on. The caller may hold locks that Link.Send must not be called with.
func (l *lending) event(e ib.EventType) {
	select {
	case l.events <- e:
		l.link.Go(l.sendEvents)
	default:
	}
}

func (l *lending) sendEvents() {
	l.sending.Lock()
	defer l.sending.Unlock()
	for len(l.events) > 0 {
		_ = l.link.Send([]byte{opEvent, uint8(<-l.events)})
	}
}

// message answers a question, which may take time: a modification opens sockets.
func (l *lending) message(b []byte) {
	if len(b) == 0 || l.busy.Swap(true) {
		l.link.Close()
		return
	}
	l.link.Go(func() {
		reply := l.answer(b[0], b[1:])
		l.busy.Store(false)
		if reply == nil {
			l.link.Close()
			return
		}
		_ = l.link.Send(reply)
	})
}

func (l *lending) answer(op uint8, b []byte) []byte {
	switch op {
	case opModify:
		m, ok := parseAttrMessage(b)
		if !ok {
			return nil
		}
		return refusal(l.qp.Modify(&m.Attr, m.Mask))
	case opQuery:
		return (&attrMessage{Attr: l.qp.Query()}).append(opAttr)
	}
	return nil
}
