// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/entropy"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/trp"
)

// Listener takes requests for associations at a port.
type Listener struct {
	// immutable after Listen
	port      *Port
	onRequest func(*Request)
	onDrop    func(d Dropped)

	opening atomic.Bool // a port that refusals leave by

	mu      sync.Mutex // a leaf
	machine *trp.Listener
	owners  map[*trp.Conn]owner  // of answered requests
	replies map[netip.Addr]*Port // that refusals leave by, where the port is not of one address
	closed  bool
}

// owner has the association of a request that came to a listener.
type owner interface {
	repeated(now monotime.Time, from netip.AddrPort, datagram []byte)
}

// Request is a client's request.
type Request struct {
	Local  netip.Addr     // that it came to, without zone
	Remote netip.AddrPort // that it came from, without zone
	Setup  wire.Setup

	listener *Listener
	conn     *trp.Conn
	answered atomic.Bool
}

// Dropped is a datagram that a listener could not take: garbage, or a request beyond its backlog.
type Dropped struct {
	Local  netip.AddrPort // that it came to
	Remote netip.AddrPort // that it came from
	Why    string
}

// Listen takes requests. The reading thread calls onRequest with each, and onDrop, unless it is
// nil, with each datagram that is dropped. They must not block. At most backlog requests wait for
// their answer, trp's default if it is not positive.
func (p *Port) Listen(backlog int, onRequest func(*Request), onDrop func(Dropped)) (*Listener,
	error) {
	m, err := trp.NewListener(config, backlog, entropy.Uint64())
	if err != nil {
		return nil, err
	}
	l := &Listener{port: p, onRequest: onRequest, onDrop: onDrop, machine: m,
		owners: map[*trp.Conn]owner{}, replies: map[netip.Addr]*Port{}}
	p.trp.listeners.add(l)
	p.give(l)
	return l, nil
}

// Addr returns the address and port listened to.
func (l *Listener) Addr() netip.AddrPort { return l.port.addr }

// Close ends listening, and closes the port. Requests that were not answered are
// forgotten.
func (l *Listener) Close() {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	replies := l.replies
	l.replies = nil
	clear(l.owners)
	l.mu.Unlock()
	if was {
		return
	}
	l.port.trp.listeners.remove(l)
	for _, p := range replies {
		p.Close()
	}
	l.port.Close()
}

func (l *Listener) take(now monotime.Time, all []udp.Message) {
	for i := range all {
		m := &all[i]
		for j := range m.Segments() {
			l.datagram(now, m, m.Segment(j))
		}
	}
}

// refused ignores the network's error: a peer that has gone does not ask again.
func (l *Listener) refused(monotime.Time, netip.AddrPort) {}

func (l *Listener) datagram(now monotime.Time, m *udp.Message, d []byte) {
	l.port.trp.eng.Stranger()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	c, fresh, again := l.machine.HandleInput(now, m.Src, d)
	owner := l.owners[c]
	var why string
	if l.onDrop != nil {
		why = l.machine.Dropped()
	}
	l.mu.Unlock()
	switch {
	case why != "":
		l.onDrop(Dropped{netip.AddrPortFrom(m.Dst.WithZone(""), l.port.addr.Port()), m.Src, why})
	case again != nil:
		l.challenge(now, m.Dst, again)
	case fresh:
		l.onRequest(&Request{Local: m.Dst.WithZone(""), Remote: m.Src, Setup: c.Remote(),
			listener: l, conn: c})
	case owner != nil:
		owner.repeated(now, m.Src, d)
	}
}

// challenge sends a client the challenge, from the address that its Request came to.
func (l *Listener) challenge(now monotime.Time, local netip.Addr, c *trp.Challenge) {
	send := func(p *Port) {
		var mu sync.Mutex // the challenge's: nobody else has it
		mu.Lock()
		p.drain(now, &mu, c, nil)
		mu.Unlock()
	}
	p := l.port
	if p.addr.Addr().IsUnspecified() {
		l.mu.Lock()
		p = l.replies[local]
		l.mu.Unlock()
	}
	if p != nil {
		send(p)
		return
	}
	// The first one at this address: a port takes longer to open than a thread that
	// reads may take. Those that come meanwhile come again.
	if l.opening.CompareAndSwap(false, true) {
		go func() {
			defer l.opening.Store(false)
			if p, err := l.replyPort(local); err == nil {
				send(p)
			}
		}()
	}
}

// established notes that the client of an association is there.
func (l *Listener) established(c *trp.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machine.Established(c.Peer())
}

// own notes the owner of an association.
func (l *Listener) own(c *trp.Conn, o owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.owners[c] = o
	}
}

// forget drops an association that is over.
func (l *Listener) forget(c *trp.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owners, c)
	l.machine.Forget(c.Peer())
}

// answer notes that a request is answered; false if it was before, or has expired.
func (r *Request) answer() bool {
	if r.answered.Swap(true) {
		return false
	}
	l := r.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.machine.Answered(r.conn)
}

// Reject refuses the request. local is as in AcceptTRP.
//
// Errors: trp.ErrPrivateData; net.ErrClosed if the request was answered, or the
// listener is closed; those of Bind.
func (r *Request) Reject(local netip.Addr, private []byte) error {
	if len(private) > wire.MaxPrivateBytes {
		return trp.ErrPrivateData
	}
	if !r.answer() {
		return net.ErrClosed
	}
	return r.listener.reject(r, local, private)
}

func (l *Listener) reject(r *Request, local netip.Addr, private []byte) error {
	p, err := l.replyPort(local)
	if err == nil {
		err = r.conn.Reject(monotime.Now(), private)
	}
	if err != nil {
		l.forget(r.conn) // it may come again
		return err
	}
	e := &linger{trp: p.trp, conn: r.conn, port: p, listener: l}
	e.start()
	return nil
}

// replyPort returns a port of the address that a request came to: the client
// hears from no other address.
func (l *Listener) replyPort(local netip.Addr) (*Port, error) {
	if !l.port.addr.Addr().IsUnspecified() {
		return l.port, nil
	}
	l.mu.Lock()
	p, closed := l.replies[local], l.closed
	l.mu.Unlock()
	if p != nil || closed {
		return p, errIf(closed)
	}
	p, err := l.port.trp.Bind(netip.AddrPortFrom(local, 0))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	other, closed := l.replies[local], l.closed
	if other == nil && !closed {
		l.replies[local] = p
	}
	l.mu.Unlock()
	if other != nil || closed {
		p.Close() // waits for a reader, which may wait for l.mu
		return other, errIf(closed)
	}
	return p, nil
}

func errIf(closed bool) error {
	if closed {
		return net.ErrClosed
	}
	return nil
}

// listeners are the listeners of an engine, for their counts.
type listeners struct {
	mu   sync.Mutex
	open map[*Listener]struct{}
	past trp.Counters
}

func (s *listeners) add(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Listener]struct{}{}
	}
	s.open[l] = struct{}{}
}

func (s *listeners) remove(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
	s.past.Add(l.counters())
}

func (l *Listener) counters() trp.Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.machine.Counters()
}

// counts returns the counts of datagrams that the listeners have dropped: garbage, packets out of
// place, and requests, beyond the backlog or without a cookie.
func (s *listeners) counts() []engine.Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.past
	for l := range s.open {
		sum.Add(l.counters())
	}
	var malformed uint64
	for _, n := range sum.Malformed {
		malformed += n
	}
	return []engine.Counter{{Name: "trp_listen_malformed", Value: malformed},
		{Name: "trp_listen_ignored", Value: sum.By[trp.IgnoredOpcode]},
		{Name: "trp_listen_overflow", Value: sum.By[trp.BacklogFull]},
		{Name: "trp_listen_challenged", Value: sum.By[trp.Challenged]}, {Name: "trp_listen_expired",
			Value: sum.By[trp.Expired]}}
}
