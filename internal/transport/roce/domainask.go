// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"
	"net/netip"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/xrcfile"
)

// domainMessage is a message between processes that share a domain.
//
//	op (1) │ MTU (1) │ 0 (2) │ QPN (4) │ PSN (4) │ address (16)
type domainMessage struct {
	op   uint8
	qpn  ib.QPN     // of the target that asks, and of the one that is made for it
	psn  ib.PSN     // of the first packet
	addr netip.Addr // of the target that asks, which is an address of this host
	mtu  ib.MTU     // of its packets
}

// Operations.
const (
	opServe uint8 = iota + 1 // asks for a target
	opServed
	opRefused
	opOpen // a queue pair; the answer is one of the two above
	opModify
	opModified
	opQuery
	opAttr
	opEvent
)

const domainMessageBytes = 28

func (m *domainMessage) send(l *xrcfile.Link) error {
	b := binary.LittleEndian.AppendUint32([]byte{m.op, uint8(m.mtu), 0, 0}, uint32(m.qpn))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.psn))
	a := [16]byte{}
	if m.addr.IsValid() {
		a = m.addr.As16()
	}
	return l.Send(append(b, a[:]...))
}

func parseDomainMessage(b []byte) (m domainMessage, ok bool) {
	if len(b) != domainMessageBytes {
		return m, false
	}
	m = domainMessage{op: b[0], mtu: ib.MTU(b[1]),
		qpn:  ib.QPN(binary.LittleEndian.Uint32(b[4:])),
		psn:  ib.PSN(0).Add(binary.LittleEndian.Uint32(b[8:])),
		addr: netip.AddrFrom16([16]byte(b[12:])).Unmap()}
	return m, m.mtu.Bytes() > 0 || m.op != opServe
}

// sharer is a target as one that passes requests on to other processes.
type sharer struct {
	domain *Domain
	conn   *engine.Conn
	asked  map[int]*asked // guarded by conn's lock: processes that are to take requests, by slot
}

// asked is another process that is to take a target's requests.
type asked struct {
	sharer  *sharer
	slot    int
	first   ib.PSN
	link    *xrcfile.Link      // guarded by the target's lock; nil before it is made
	left    bool               // guarded by the target's lock: LeaveAll was called
	replies chan domainMessage // one
	done    chan struct{}      // closed at the end of the link
}

// Owner implements rc.Others.
func (s *sharer) Owner(n ib.SRQN) (slot int, ok bool) {
	slot = s.domain.roce.slotOf(ib.QPN(n))
	return slot, slot != s.domain.roce.rings.Slot()
}

// Ask implements rc.Others.
func (s *sharer) Ask(slot int, first ib.PSN) {
	a := &asked{sharer: s, slot: slot, first: first, replies: make(chan domainMessage, 1),
		done: make(chan struct{})}
	if s.asked == nil {
		s.asked = map[int]*asked{}
	}
	s.asked[slot] = a
	if c, ok := ConnOf(s.conn); ok {
		c.beginRelays(s.conn.Machine().(*rc.QP))
	}
	s.domain.place.Go(a.ask)
}

// LeaveAll implements rc.Others.
func (s *sharer) LeaveAll() {
	if c, ok := ConnOf(s.conn); ok {
		c.endRelays()
	}
	for _, a := range s.asked {
		a.left = true
		if a.link != nil {
			s.domain.place.Go(a.link.Close) // no system call with the lock held
		}
	}
	s.asked = nil
}

// ask makes the way to the process.
func (a *asked) ask() {
	s := a.sharer
	c, _ := ConnOf(s.conn)
	r := c.newRelay(a.slot)
	ok := r != nil && a.request(r)
	s.conn.Lock()
	if s.asked[a.slot] != a { // the target has left its state since
		s.conn.Unlock()
		return
	}
	m := s.conn.Machine().(*rc.QP)
	if ok {
		c.addRelay(r)
		m.Answered(a.slot, r)
	} else {
		delete(s.asked, a.slot)
		m.Answered(a.slot, nil)
	}
	s.conn.PumpUnlock(monotime.Now())
}

// request asks for the other process's target. It waits for that process, which may be stopped,
// until the link ends.
func (a *asked) request(r *relay) (ok bool) {
	s := a.sharer
	link, err := s.domain.place.Dial(a.slot, a, a.wanted)
	if err != nil {
		return false
	}
	s.conn.Lock()
	a.link = link
	left := a.left
	s.conn.Unlock()
	m := domainMessage{op: opServe, qpn: s.conn.QPN(), psn: a.first, addr: r.addr, mtu: r.mtu}
	if left || m.send(link) != nil {
		link.Close()
		return false
	}
	select {
	case m = <-a.replies:
	case <-a.done:
	}
	if m.op != opServed {
		link.Close()
		return false
	}
	r.to = m.qpn
	return true
}

// wanted reports whether the target has not left its state since it asked.
func (a *asked) wanted() bool {
	a.sharer.conn.Lock()
	defer a.sharer.conn.Unlock()
	return !a.left
}

// Message implements xrcfile.Handler.
func (a *asked) Message(b []byte) {
	m, ok := parseDomainMessage(b)
	if !ok {
		return
	}
	select {
	case a.replies <- m:
	default:
	}
}

// End implements xrcfile.Handler.
func (a *asked) End() {
	close(a.done)
	a.sharer.domain.place.Go(a.lost)
}

// lost notifies the target that the process has gone, after all answers of it.
func (a *asked) lost() {
	s := a.sharer
	s.domain.roce.eng.TakeArrived()
	s.conn.Lock()
	if s.asked[a.slot] != a {
		s.conn.Unlock()
		return
	}
	delete(s.asked, a.slot)
	s.conn.Machine().(*rc.QP).Lost(a.slot)
	s.conn.PumpUnlock(monotime.Now())
}
