package engine

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/osio/share"
	"verbena/internal/osio/tap"
	"verbena/internal/osio/udp"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Options configure an engine.
type Options struct {
	Dir  string // where this user's processes meet; empty is share.DefaultDir
	Solo bool   // do without sharing: this process alone has the port
	// Faults are what happens to everything sent.
	Faults tap.Faults
	// Capture takes every packet sent and received; nil is none.
	Capture tap.Sink
}

// Engine runs the queue pairs of one process.
type Engine struct {
	// immutable after New
	member  share.Member
	faults  tap.Faults
	capture tap.Sink
	conns   connTable

	timers *timers
	wire   wireCounters

	ports   atomic.Pointer[[]*Port] // those being read; replaced under portsMu
	portsMu sync.Mutex

	mu      sync.Mutex
	pools   map[netip.Addr]*udp.SourcePool
	sources map[*udp.Source]*source
	streams atomic.Uint64 // taps so far: each has random numbers of its own
	opened  map[netip.Addr]*Port
	closed  bool

	groups groups
	late   lateConns

	gsi gsi

	bg background
}

// New starts an engine.
//
// Errors: this user's processes cannot meet in Dir, or all slots are taken.
func New(o Options) (*Engine, error) { return newEngine(o, defaultBackoff) }

func newEngine(o Options, backoff monotime.Duration) (*Engine, error) {
	e := &Engine{faults: o.Faults, capture: o.Capture, timers: newTimers(), opened: map[netip.Addr]*Port{},
		pools: map[netip.Addr]*udp.SourcePool{}, sources: map[*udp.Source]*source{}}
	e.groups.members, e.groups.ports = map[group][]*Conn{}, map[group]*Port{}
	var err error
	if e.member, err = share.Join(o.Dir, share.Options{Route: route, Overlap: keysOverlap, OnMAD: e.takeMAD, OnKeeper: e.lostMADs, Solo: o.Solo}); err != nil {
		return nil, err
	}
	lo, hi := e.member.QPNRange()
	e.conns.base = lo &^ (slotQPNs - 1)
	e.conns.limit = min(uint32(hi-e.conns.base)+1, slotQPNs)
	// A process that takes over a slot should not be met by what was sent to the
	// numbers of the last owner.
	e.conns.next = firstQPN + rand.Uint32N(e.conns.limit-firstQPN)
	e.ports.Store(&[]*Port{})
	if err := e.bg.start(e, backoff); err != nil {
		e.member.Close()
		return nil, err
	}
	return e, nil
}

// Close stops the engine. Connections must have been closed.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.bg.stop()
	for _, p := range *e.ports.Load() {
		p.close()
	}
	e.bg.close()
	e.mu.Lock()
	for _, p := range e.pools {
		p.Close()
	}
	e.mu.Unlock()
	return e.member.Close()
}

// NewConn gives a queue pair a number and puts it on the wire. Its counters go
// to the account. makeMachine is called with the number; onEvent later,
// without locks, with each event.
func (e *Engine) NewConn(account *Account, makeMachine func(ib.QPN) roce.Machine, onEvent func(ib.EventType)) (*Conn, error) {
	e.Settle()
	qpn, ok := e.conns.reserve()
	if !ok {
		return nil, fmt.Errorf("engine: all %d queue pair numbers of this process are in use", e.conns.limit-firstQPN)
	}
	c := &Conn{eng: e, account: account, qpn: qpn, onEvent: onEvent, timerIndex: timerIdle, armed: monotime.Never}
	c.machine = makeMachine(qpn)
	e.conns.publish(c)
	return c, nil
}

// arm sets c's timer and sees to it that somebody is awake at that time.
func (e *Engine) arm(c *Conn, when monotime.Time) {
	if e.timers.set(c, when) {
		e.bg.timerMoved(when)
	}
}

// fireDue runs every timer that has come due; a few nanoseconds when none has.
func (e *Engine) fireDue(now monotime.Time) {
	if !e.timers.due(now) {
		return
	}
	for range maxFire {
		c := e.timers.expired(now)
		if c == nil {
			return
		}
		c.timeout(now)
	}
}

// maxFire bounds one round of timers so that receiving is not starved.
const maxFire = 256

// Listen makes the engine receive what is sent to a local address. It may be
// called again for the same address.
func (e *Engine) Listen(addr netip.Addr) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("engine: closed")
	}
	if e.opened[addr] != nil {
		return nil
	}
	s, err := e.member.Socket(addr)
	if err != nil {
		return err
	}
	p, err := e.addPort(addr, s, group{})
	if err == nil {
		e.opened[addr] = p
	}
	return err
}

// tapped puts faults and capture before a socket where they are asked for.
func (e *Engine) tapped(s *udp.Socket) tap.Socket {
	if e.faults.None() && e.capture == nil {
		return s
	}
	t := tap.New(s, tap.Options{Faults: e.faults, Stream: e.streams.Add(1), Sink: e.capture, Identify: identify})
	t.Drive()
	return t
}

// identify finds the IPv4 identification of a datagram received.
func identify(src netip.AddrPort, dst netip.Addr, b []byte, index uint16) uint16 {
	pseudo := wire.NewPseudo(src.Addr(), dst, src.Port(), roce.UDPPort)
	if id, ok := pseudo.Verify(b, index); ok {
		return id
	}
	return index
}

// detach ends a tap; its socket is closed by its owner.
func detach(s tap.Socket) {
	if t, ok := s.(*tap.Tap); ok {
		t.Detach()
	}
}

// addPort starts reading a socket, of a multicast group if k is not zero.
func (e *Engine) addPort(addr netip.Addr, s *udp.Socket, k group) (*Port, error) {
	p := &Port{eng: e, addr: addr, group: k, raw: s, sock: e.tapped(s), rx: udp.NewRxBatch()}
	if err := e.bg.poller.Add(s, 0); err != nil {
		detach(p.sock)
		return nil, err
	}
	e.portsMu.Lock()
	defer e.portsMu.Unlock()
	next := append(slices.Clone(*e.ports.Load()), p)
	e.ports.Store(&next)
	return p, nil
}

// removePort ends what addPort began.
func (e *Engine) removePort(p *Port) {
	e.portsMu.Lock()
	next := slices.DeleteFunc(slices.Clone(*e.ports.Load()), func(o *Port) bool { return o == p })
	e.ports.Store(&next)
	e.portsMu.Unlock()
	p.close()
}

// Poll makes progress on the caller's thread: it reads what has arrived and
// runs timers that are due. It never blocks. Acknowledgements may stay behind:
// a caller that found no completion calls Flush, one that did returns to the
// application first, whose answer may carry them. It returns how many messages
// it read.
func (e *Engine) Poll() (messages int) {
	n := e.bg.polls.Add(1)
	for _, p := range *e.ports.Load() {
		messages += max(p.tryPoll(true), 0)
	}
	if n%timerPolls == 0 {
		e.fireDue(monotime.Now())
	}
	return messages
}

// timerPolls is how many empty polls pass between looks at the clock: a poll
// costs well below a microsecond, the finest timer is ten.
const timerPolls = 16

// Wake makes the background goroutine take over at once: the caller is about
// to stop polling and wait for an event.
func (e *Engine) Wake() {
	e.Flush()
	e.bg.kick()
}

// Woken says that the application was given an event that it may be waiting
// for, and has something to do.
func (e *Engine) Woken() { e.bg.woken.Store(true) }

// source is a socket that packets leave by: its port is the flow's entropy.
type source struct {
	udp  *udp.Source
	sock tap.Socket // udp, or a tap around it
	addr netip.Addr // without zone
	zone string     // the interface of a link-local address
	refs int        // guarded by Engine.mu
}

// source returns the socket for packets of a queue pair from a local address.
func (e *Engine) source(addr netip.Addr, qpn ib.QPN) (*source, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pool := e.pools[addr]
	if pool == nil {
		var o udp.Options
		if addr.Is6() { // IPv4 multicast goes by the interface that has the address
			o.Interface = interfaceOf(addr)
		}
		pool = udp.NewSourcePool(addr, o)
		e.pools[addr] = pool
	}
	u, err := pool.Acquire(uint32(qpn))
	if err != nil {
		return nil, fmt.Errorf("engine: send from %v: %w", addr, err)
	}
	s := e.sources[u]
	if s == nil {
		s = &source{udp: u, sock: e.tapped(u.Socket), addr: addr.WithZone(""), zone: addr.Zone()}
		e.sources[u] = s
	}
	s.refs++
	return s, nil
}

func (e *Engine) dropSource(s *source) {
	if s == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.refs--; s.refs == 0 {
		delete(e.sources, s.udp)
		detach(s.sock)
	}
	s.udp.Release()
}

// cuts reports whether the system cuts trains into datagrams.
func (s *source) cuts() bool { return s.sock.SegmentsTrains() }

// write sends trains of one source address and returns when
// the system has them. What the system does not take within writePatience is lost, as on any
// network.
func (s *source) write(bursts []*roce.Burst, out []udp.Datagrams) {
	for i, b := range bursts {
		b.Seal()
		path := b.Path()
		seg := b.SegmentBytes()
		if b.Len() == 1 {
			seg = 0
		}
		dst := path.Dst
		if dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast() {
			dst = dst.WithZone(s.zone)
		}
		out[i] = udp.Datagrams{Dst: netip.AddrPortFrom(dst, roce.UDPPort), Iov: b.Iov(), SegmentSize: seg, TOS: path.TClass, TTL: path.HopLimit}
	}
	for rest := out[:len(bursts)]; len(rest) > 0; {
		k, err := s.sock.WriteBatch(rest)
		if rest = rest[k:]; err != nil || len(rest) == 0 || s.sock.WaitWritable(writePatience) != nil {
			break
		}
	}
	clear(out)
}

const writePatience = 10 * monotime.Millisecond
