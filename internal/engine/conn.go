package engine

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/osio/udp"
	"verbena/internal/roce"
)

// Conn is a queue pair as the engine sees it: a machine, the lock that
// serialises it and the way out. The zero value is not usable.
type Conn struct {
	// immutable after NewConn
	eng     *Engine
	account *Account
	qpn     ib.QPN
	onEvent func(ib.EventType) // called without locks held

	// guarded by mu
	mu      sync.Mutex
	machine roce.Machine
	sources []*source // the sockets packets leave by, one a source address
	pumping bool
	closed  bool
	late    late
	armed   monotime.Time // when the timer heap will wake it, at the latest

	// guarded by Engine.timers.mu
	timerAt    monotime.Time
	timerIndex int
}

// QPN returns the queue pair's number.
func (c *Conn) QPN() ib.QPN { return c.qpn }

// Lock serialises access to the machine and its queues. Post under it, then
// call Ring, which unlocks.
func (c *Conn) Lock() { c.mu.Lock() }

// Unlock ends what Lock began, where nothing is to be sent.
func (c *Conn) Unlock() { c.mu.Unlock() }

// Machine returns the protocol machine; the caller holds the lock.
func (c *Conn) Machine() roce.Machine { return c.machine }

// Ring tells the machine of posted work and sends what it may. The caller holds
// the lock, which Ring releases.
func (c *Conn) Ring() {
	now := monotime.Now()
	c.late.posted()
	c.machine.Doorbell(now)
	c.pump(now)
}

// RingReceives tells the machine of posted receives. They send nothing and are
// no answer to anybody: what is put off stays so. The caller holds the lock,
// which RingReceives releases.
func (c *Conn) RingReceives() {
	if c.machine.State() == ib.QPErr { // they are flushed
		c.Ring()
		return
	}
	c.mu.Unlock()
}

// Modify applies attributes. src is the local address of the GID index where
// mask has QPAV. check is asked with the state of that very moment, which a
// packet may have changed since the caller looked.
//
// Errors: check's; net.ErrClosed; the system has no socket to send from src.
func (c *Conn) Modify(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr, check func(cur ib.QPState) error) error {
	var path *roce.Path
	if mask&ib.QPAV != 0 {
		port, err := c.Bind(src)
		if err != nil {
			return err
		}
		path = roce.NewPath(src.WithZone(""), port, &attr.AH.GRH)
	}
	c.mu.Lock()
	err := check(c.machine.State())
	if c.closed {
		err = net.ErrClosed
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	now := monotime.Now()
	c.drainLate(now)
	c.machine.Modify(now, attr, mask, path)
	c.pump(now)
	return nil
}

// Bind makes the queue pair able to send from a local address and returns the
// UDP source port its packets will carry.
func (c *Conn) Bind(src netip.Addr) (uint16, error) {
	c.mu.Lock()
	s := c.sourceOf(src.WithZone(""))
	c.mu.Unlock()
	if s == nil {
		var err error
		if s, err = c.eng.source(src, c.qpn); err != nil {
			return 0, err
		}
		c.mu.Lock()
		closed := c.closed
		if !closed {
			c.sources = append(slices.Clip(c.sources), s)
		}
		c.mu.Unlock()
		if closed {
			c.eng.dropSource(s)
			return 0, net.ErrClosed
		}
	}
	return s.sock.LocalAddr().Port(), nil
}

// sourceOf returns the socket to send from an address; the caller holds mu.
func (c *Conn) sourceOf(src netip.Addr) *source {
	for _, s := range c.sources {
		if s.addr == src {
			return s
		}
	}
	return nil
}

// pumper is the memory of one pump: the trains it fills and their form for
// the socket.
type pumper struct {
	bursts [trainsPerWrite]*roce.Burst
	out    [trainsPerWrite]udp.Datagrams
}

// trainsPerWrite is how many trains one sendmmsg carries: enough that a window
// of small messages goes out in one call, few enough that the peer gets to
// work while the rest is built.
const trainsPerWrite = 4

var pumpers = sync.Pool{New: func() any {
	p := &pumper{}
	for i := range p.bursts {
		p.bursts[i] = roce.NewBurst()
	}
	return p
}}

// pump sends what the machine has to send, sets its timer and delivers its
// events. The caller holds mu; pump releases it.
func (c *Conn) pump(now monotime.Time) {
	if c.pumping { // whoever pumps will see the work
		c.mu.Unlock()
		return
	}
	if len(c.sources) > 0 && !c.closed {
		c.pumping = true
		c.drain(now)
		c.pumping = false
	}
	when := c.machine.NextTimeout()
	arm := when.Before(c.armed)
	if arm {
		c.armed = when
	}
	c.deliver()
	if arm {
		c.eng.arm(c, when)
	}
}

// timeout is the timer heap's call: c is no longer in it.
func (c *Conn) timeout(now monotime.Time) {
	c.mu.Lock()
	c.armed = monotime.Never
	if c.closed {
		c.mu.Unlock()
		return
	}
	if !now.Before(c.machine.NextTimeout()) {
		c.machine.HandleTimeout(now)
	}
	c.pump(now)
}

// drain writes trains until the machine has none. It holds mu on entry and on
// return, but not while writing.
func (c *Conn) drain(now monotime.Time) {
	var p *pumper
	for !c.closed {
		limit := roce.MaxSegments
		if !c.sources[0].cuts() {
			limit = 1
		}
		n := 0
		for n < trainsPerWrite {
			if p == nil {
				p = pumpers.Get().(*pumper)
			}
			p.bursts[n].Limit(limit)
			p.bursts[n].Patient(c.late.waiting)
			if c.late.waiting {
				if _, ok := c.machine.Patient(); ok {
					break // Flush is to come: the application's answer goes out without it
				}
			}
			if !c.machine.PollOutput(now, p.bursts[n]) {
				break
			}
			n++
		}
		if n == 0 {
			break
		}
		sources := c.sources // replaced, never changed in place
		c.mu.Unlock()
		p.write(sources, n)
		c.mu.Lock()
	}
	if p != nil {
		pumpers.Put(p)
	}
}

// write sends n trains, each from the socket of its source address, in order.
func (p *pumper) write(sources []*source, n int) {
	for from := 0; from < n; {
		src := p.bursts[from].Path().Src
		to := from + 1
		for to < n && p.bursts[to].Path().Src == src {
			to++
		}
		for _, s := range sources {
			if s.addr == src {
				s.write(p.bursts[from:to], p.out[from:to])
				break
			}
		}
		for _, b := range p.bursts[from:to] {
			b.Reset()
		}
		from = to
	}
}

// deliver hands out the machine's events and unlocks.
func (c *Conn) deliver() {
	e, ok := c.machine.PollEvent()
	c.mu.Unlock()
	for ok {
		c.onEvent(e)
		c.mu.Lock()
		e, ok = c.machine.PollEvent()
		c.mu.Unlock()
	}
}

// drainLate sends an acknowledgement that was put off: the peer of a message
// whose completion the application has seen must not be left without. The
// caller holds mu.
func (c *Conn) drainLate(now monotime.Time) {
	if c.late.waiting && !c.pumping && !c.closed && len(c.sources) > 0 {
		c.late.waiting = false
		c.pumping = true
		c.drain(now)
		c.pumping = false
	}
}

// Close takes the queue pair off the wire. Nothing of it runs afterwards; work
// still posted is left to the caller.
func (c *Conn) Close() {
	c.eng.conns.remove(c)
	c.mu.Lock()
	c.drainLate(monotime.Now())
	c.closed = true
	for c.pumping { // its write is under way: bounded by one system call
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	sources := c.sources
	c.sources = nil
	count := *c.machine.Counters()
	c.mu.Unlock()
	c.eng.timers.remove(c)
	for _, s := range sources {
		c.eng.dropSource(s)
	}
	c.account.add(&count)
}

// connTable finds connections by queue pair number. Look-ups take no lock.
type connTable struct {
	chunks [slotQPNs / connChunk]atomic.Pointer[[connChunk]atomic.Pointer[Conn]]

	mu    sync.Mutex
	base  ib.QPN // of the process's slot
	limit uint32 // one past the slot's last number: the last slot lacks QPMulticast
	next  uint32 // where to look for a free number: numbers rotate, so none is reused soon
	count int
}

const (
	slotQPNs  = 1 << 18 // numbers in one of the 64 slots of the 24-bit space
	connChunk = 256
	firstQPN  = 0x10 // below are the numbers with a fixed meaning
)

// find returns the connection of a number, or nil.
func (t *connTable) find(q ib.QPN) *Conn {
	i := uint32(q) & (slotQPNs - 1)
	chunk := t.chunks[i/connChunk].Load()
	if chunk == nil {
		return nil
	}
	if c := chunk[i%connChunk].Load(); c != nil && c.qpn == q {
		return c
	}
	return nil
}

// reserve gives out a number; publish makes its connection findable.
func (t *connTable) reserve() (ib.QPN, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= int(t.limit-firstQPN) {
		return 0, false
	}
	for {
		i := t.next
		if t.next++; t.next >= t.limit {
			t.next = firstQPN
		}
		p := &t.chunks[i/connChunk]
		chunk := p.Load()
		if chunk == nil {
			chunk = new([connChunk]atomic.Pointer[Conn])
			p.Store(chunk)
		}
		if chunk[i%connChunk].CompareAndSwap(nil, reserved) {
			t.count++
			return t.base | ib.QPN(i), true
		}
	}
}

// reserved marks a number given out whose connection is still being made.
var reserved = &Conn{qpn: ^ib.QPN(0)}

func (t *connTable) publish(c *Conn) {
	i := uint32(c.qpn) & (slotQPNs - 1)
	t.chunks[i/connChunk].Load()[i%connChunk].Store(c)
}

func (t *connTable) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := uint32(c.qpn) & (slotQPNs - 1)
	t.chunks[i/connChunk].Load()[i%connChunk].Store(nil)
	t.count--
}

// each calls f for every connection.
func (t *connTable) each(f func(*Conn)) {
	for i := range t.chunks {
		chunk := t.chunks[i].Load()
		if chunk == nil {
			continue
		}
		for j := range chunk {
			if c := chunk[j].Load(); c != nil && c != reserved {
				f(c)
			}
		}
	}
}
