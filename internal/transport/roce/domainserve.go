// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/xrcfile"
)

// maxAsked is the number of requests with data in their answers that the other target may have
// outstanding: for the oldest response, and for the next request.
const maxAsked = 2

// served is a target for the requests that another process's target passes on.
type served struct{ conn *engine.Conn }

// serve makes a target for the requests of another process's.
func (d *Domain) serve(m *domainMessage) (*served, error) {
	addrs, err := d.info.AddrTable()
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(addrs, func(a netip.Addr) bool {
		return a.IsValid() && a.WithZone("") == m.addr
	})
	if index < 0 {
		return nil, errors.New("roce: the address is not the device's")
	}
	// Nothing is lost between the two, so there is nothing to put in order.
	conn, err := d.roce.NewConn(d.counters, func(ib.QPN) roce.Machine {
		return rc.NewXRCForOthers(roce.Config{QPN: m.qpn, Reorder: mem.NewBudget(0),
			OnViolation: d.counters.Violation}, d.find)
	}, func(ib.EventType) {}, d.roce.eng.FirstLane())
	if err != nil {
		return nil, err
	}
	s := &served{conn}
	if err = s.connect(m, addrs[index], uint8(index)); err == nil {
		err = d.addServed(s)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// connect connects the target with the one that asks, which has the same address.
func (s *served) connect(m *domainMessage, addr netip.Addr, index uint8) error {
	// The application that has the other target decides which operations peers may use.
	attr := ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: ib.AccessRemote, PathMTU: m.mtu,
		DestQPN: m.qpn, MaxDestRdAtomic: maxAsked, AH: ib.AHAttr{IsGlobal: true, PortNum: 1,
			GRH: ib.GRH{DGID: ib.GIDFromAddr(m.addr), SGIDIndex: index}}}
	toRTR := attr
	toRTR.State, toRTR.RQPSN = ib.QPRTR, m.psn
	legal := func(ib.QPState) error { return nil }
	if err := s.conn.Modify(&attr, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags, addr,
		legal); err != nil {
		return err
	}
	if err := s.conn.Modify(&toRTR, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|
		ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer, addr, legal); err != nil {
		return err
	}
	c, _ := ConnOf(s.conn)
	s.conn.Lock()
	defer s.conn.Unlock()
	if c.ring == nil {
		return errors.New("roce: there is no ring to the other process")
	}
	return nil
}

func (d *Domain) addServed(s *served) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.served == nil {
		return os.ErrClosed
	}
	d.served[s] = struct{}{}
	return nil
}

// end ends the target. The receive that it holds is flushed.
func (s *served) end() {
	s.conn.Lock()
	if s.conn.Machine().State() != ib.QPErr {
		s.conn.Machine().(*rc.QP).Modify(monotime.Now(), &ib.QPAttr{State: ib.QPErr},
			ib.QPStateAttr, nil)
	}
	s.conn.PumpUnlock(monotime.Now())
	s.conn.Close()
}

// caller is another process that has made a link.
type caller struct {
	domain *Domain
	link   *xrcfile.Link

	mu     sync.Mutex
	asked  bool    // guarded by mu: a message has come
	served *served // guarded by mu
	ended  bool    // guarded by mu

	lending *lending // guarded by mu
}

// Message implements xrcfile.Handler.
func (c *caller) Message(b []byte) {
	c.mu.Lock()
	again, lending := c.asked, c.lending
	c.asked = true
	c.mu.Unlock()
	if lending != nil {
		lending.message(bytes.Clone(b))
		return
	}
	m, ok := parseDomainMessage(b)
	switch {
	case ok && !again && m.op == opServe:
		c.link.Go(func() { c.serve(&m) })
	case ok && !again && m.op == opOpen:
		c.lend(m.qpn)
	default:
		c.link.Close()
	}
}

func (c *caller) serve(m *domainMessage) {
	s, err := c.domain.serve(m)
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.served = s
	}
	c.mu.Unlock()
	reply := domainMessage{op: opRefused}
	switch {
	case err != nil:
	case ended:
		c.drop(s)
		return
	default:
		reply = domainMessage{op: opServed, qpn: s.conn.QPN()}
	}
	_ = reply.send(c.link) // the link ends if that fails
}

// End implements xrcfile.Handler.
func (c *caller) End() { c.link.Go(c.end) }

// end ends the target of the caller, after all that it has passed on.
func (c *caller) end() {
	c.domain.roce.eng.TakeArrived()
	c.mu.Lock()
	c.ended = true
	s, l := c.served, c.lending
	c.mu.Unlock()
	if s != nil {
		c.drop(s)
	}
	if l != nil {
		c.domain.endLending(l)
	}
}

func (c *caller) drop(s *served) {
	d := c.domain
	d.mu.Lock()
	_, ours := d.served[s]
	delete(d.served, s)
	d.mu.Unlock()
	if ours { // else Domain.Leave does it
		s.end()
	}
}
