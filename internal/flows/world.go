// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

// World is a network with flows between its hosts.
type World struct {
	Net   *simnet.Net
	Flows []*Flow

	// Naps draws for how long a host sleeps when a datagram has come, as a process may that gets no
	// processor. nil is that it never sleeps.
	Naps func(*rand.Rand) monotime.Duration

	reading  bool     // a host reads what came during its nap
	pending  []func() // pumps that wait until it has
	hosts    map[netip.Addr]*host
	memory   []byte // that all flows register: nobody looks at their bytes
	burst    *roce.Burst
	segments *trp.Burst
	wc       [64]ib.WC
}

// NewWorld returns a network without hosts.
func NewWorld(seed uint64) *World {
	return &World{Net: simnet.New(seed), hosts: map[netip.Addr]*host{},
		burst: roce.NewBurst(), segments: trp.NewBurst()}
}

// Spec describes a flow.
type Spec struct {
	Kind     Kind
	From, To netip.Addr // a READ brings its bytes from To
	Start    monotime.Time
	Bytes    int64 // 0 is without end
	MTU      ib.MTU
	Message  int // bytes
	Depth    int // messages posted
	Reads    int // READs outstanding at most
	GoBackN  bool

	Congestion congestion.Algorithm // of RC
}

// Fit makes messages no longer than the flow, and lets no more be posted than it has.
func (s *Spec) Fit() {
	if s.Bytes > 0 {
		s.Message = int(min(int64(s.Message), s.Bytes))
		messages := (s.Bytes + int64(s.Message) - 1) / int64(s.Message)
		s.Depth = int(min(int64(s.Depth), messages))
	}
}

// Flow is a pair of machines with an application that keeps them busy.
type Flow struct {
	Spec
	Drops int           // packets that the network dropped, of both directions
	Ended monotime.Time // all bytes were there; monotime.Never before

	machine
	w    *World
	port uint16 // source port of both queue pairs
}

// Counts count packets repeated, timers expired, and packets that the machines took for lost.
type Counts struct{ Repeated, Timeouts, Missed uint64 }

// machine is a pair of protocol machines of one kind.
type machine interface {
	start()
	bytes() int64 // brought across
	received() int64
	path() congestion.Path
	count(c *Counts)
	failure() string
}

// firstPort is the least source port of queue pairs. Spec: IBTA annex A17.9.2, its UDP ports.
const firstPort = 0xc000

// Add adds a flow, which starts by itself.
func (w *World) Add(s Spec) *Flow {
	f := &Flow{Spec: s, Ended: monotime.Never, w: w, port: firstPort | uint16(len(w.Flows))}
	switch s.Kind {
	case TRP:
		f.machine = w.newTRP(f)
	case Cubic:
		f.machine = w.newTCP(f, newCubic())
	case BBR:
		f.machine = w.newTCP(f, newBBR())
	default:
		f.machine = w.newRC(f)
	}
	w.Flows = append(w.Flows, f)
	w.Net.At(s.Start, f.machine.start)
	return f
}

// Carried returns how many bytes of whole messages were brought across.
func (f *Flow) Carried() int64 { return f.bytes() }

// Received returns how many bytes of payload have arrived, repeated ones included.
func (f *Flow) Received() int64 { return f.received() }

// Path returns the sender's measurements.
func (f *Flow) Path() congestion.Path { return f.path() }

// Counts returns the counts so far.
func (f *Flow) Counts() (c Counts) {
	f.count(&c)
	return c
}

// Began reports whether the flow has started.
func (f *Flow) Began() bool { return f.w.Net.Now() >= f.Start }

// Failure returns the error that ended the flow, or "".
func (f *Flow) Failure() string { return f.failure() }

// left returns how many bytes follow the first done ones, or many.
func (f *Flow) left(done int64) uint32 {
	if f.Bytes == 0 {
		return 1 << 31
	}
	return uint32(min(max(f.Bytes-done, 0), 1<<31))
}

// next returns the length of the message that follows the first done bytes.
func (f *Flow) next(done int64) uint32 { return min(f.left(done), uint32(f.Message)) }

// progress takes note of the end of the flow.
func (f *Flow) progress(done int64) {
	if f.Ended == monotime.Never && f.left(done) == 0 {
		f.Ended = f.w.Net.Now()
	}
}

// Run lets time pass.
func (w *World) Run(d monotime.Duration) {
	for end := w.Net.Now().Add(d); w.Net.Step(end); {
	}
}

// Done reports whether every flow has ended or failed.
func (w *World) Done() bool {
	for _, f := range w.Flows {
		if f.Ended == monotime.Never && f.failure() == "" {
			return false
		}
	}
	return true
}

// Jain returns Jain's index of fairness: 1 where all rates are equal, 1/n where one has all.
//
// Source: Jain, Chiu and Hawe, DEC Research Report TR-301, 1984.
func Jain(rates []float64) float64 {
	var sum, squares float64
	for _, r := range rates {
		sum, squares = sum+r, squares+float64(r*r)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(rates)) * squares)
}

// bytes returns memory to register.
func (w *World) bytes(n int) []byte {
	if len(w.memory) < n {
		w.memory = make([]byte, n)
	}
	return w.memory[:n]
}

// host has the ends of flows at one address.
type host struct {
	queuePairs []*rcEnd
	ports      map[uint16]func(*simnet.Datagram)
	nextPort   uint16
	arrived    []simnet.Datagram // during a nap
}

func (w *World) host(addr netip.Addr) *host {
	h := w.hosts[addr]
	if h == nil {
		h = &host{ports: map[uint16]func(*simnet.Datagram){}, nextPort: 7174}
		h.ports[wire.Port] = h.packet
		w.hosts[addr] = h
		w.Net.Attach(addr, func(d *simnet.Datagram) { h.arrive(w, d) })
	}
	return h
}

// arrive takes a datagram, now or at the end of a nap.
func (h *host) arrive(w *World, d *simnet.Datagram) {
	if w.Naps == nil {
		h.ports[d.DstPort](d)
		return
	}
	h.arrived = append(h.arrived, *d)
	if len(h.arrived) == 1 {
		w.Net.At(w.Net.Now().Add(w.Naps(w.Net.Rand)), func() { h.wake(w) })
	}
}

// wake handles all datagrams that have arrived during a nap. Then the machines send.
func (h *host) wake(w *World) {
	arrived := h.arrived
	h.arrived, w.reading = nil, true
	for i := range arrived {
		h.ports[arrived[i].DstPort](&arrived[i])
	}
	w.reading = false
	pending := w.pending
	w.pending = nil
	for _, pump := range pending {
		pump()
	}
}

// listen gives a port to f.
func (h *host) listen(f func(*simnet.Datagram)) uint16 {
	h.nextPort++
	h.ports[h.nextPort] = f
	return h.nextPort
}

// packet takes a packet of RoCEv2.
func (h *host) packet(d *simnet.Datagram) {
	var p wire.Packet
	if m := p.Parse(d.Payload); m != wire.WellFormed {
		panic(fmt.Sprintf("flows: a machine sent a packet that is %v", m))
	}
	h.queuePairs[p.DestQP-firstQPN].handle(&p, d)
}

// sendBurst cuts a burst into datagrams, notes them and sends them.
func (w *World) sendBurst(iov [][]byte, bytes, segment int, d simnet.Datagram, note func([]byte)) {
	all := make([]byte, 0, bytes)
	for _, v := range iov {
		all = append(all, v...)
	}
	for len(all) > 0 {
		n := min(len(all), segment)
		d.Payload = all[:n:n]
		note(d.Payload)
		w.Net.Send(d)
		all = all[n:]
		d.ID++
	}
}
