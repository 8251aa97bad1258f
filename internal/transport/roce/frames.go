// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"sync"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// Where an interface has a pool of frames (package xsk), packets that come by it are read from a
// ring of this process. Packets that leave by it go into another one. Each address has its sockets
// all the same, for packets that the kernel passes or is to send: see package xsk.

// ParseFrames reads the list of Options.Frames, such as "eth0,eth1:4".
func ParseFrames(list string) ([]portshare.Interface, error) {
	return portshare.ParseInterfaces(list)
}

// FramesError is the error of Component for an interface of Options.Frames.
type FramesError = portshare.FramesError

// framePort is the receive side of one queue of an interface: a Port of all addresses.
type framePort struct {
	Port
	queue *xsk.Queue // immutable

	armMu sync.Mutex
	armed bool // guarded by armMu: the poller waits for the queue
	ended bool // guarded by armMu: Stop was called
}

// openFrames starts reading the queues of the interfaces that have a pool.
func (t *Transport) openFrames(list []portshare.Interface) error {
	if err := t.seats.Open(t.member, t.lookUp, list); err != nil {
		return err
	}
	for _, s := range t.seats.Sockets() {
		for _, q := range s.Queues() {
			p := &framePort{Port: Port{roce: t, sock: q, iface: s.Interface(),
				rx: udp.NewRxBatch()}, queue: q}
			t.framePorts = append(t.framePorts, p)
			t.eng.AddRing(p)
		}
	}
	return nil
}

// closeFrames ends openFrames.
func (t *Transport) closeFrames() {
	for _, p := range t.framePorts {
		t.eng.RemoveRing(p)
		p.Stop()
	}
	t.framePorts = nil
}

// wrap has a socket to send from an address send by the frames of the interface that has the
// address, if that has a pool.
func (t *Transport) wrap(addr netip.Addr, s *udp.Socket) (w faultcap.Socket, frames bool) {
	if f := t.seats.Source(addr, s, false); f != nil {
		return f, true
	}
	return t.eng.Tap(s, identify), false
}

// elsewhere reports whether a message is for another transport's port.
func elsewhere(m *udp.Message) bool { return m.Port != 0 && m.Port != portshare.Port }

// others has the ports of the other transports.
type others interface {
	Deliver(now monotime.Time, iface int, m []udp.Message) bool
}

// deliver gives messages to the transport that has the port of the first one: all up to the next
// one to another port. It returns how many these are. Those from an address of this process are
// dropped: see receives.
func (p *Port) deliver(now monotime.Time, m []udp.Message, to others) (n int) {
	own := p.isOwn(m[0].Src.Addr())
	for n = 1; n < len(m) && m[n].Port == m[0].Port && m[n].Dst == m[0].Dst &&
		p.isOwn(m[n].Src.Addr()) == own; n++ {
	}
	if own || !to.Deliver(now, p.iface, m[:n]) {
		p.roce.count.unknownQP.Add(uint64(n)) // or the port was closed while they were under way
	}
	return n
}

// isOwn reports whether an address is one of this process.
func (p *Port) isOwn(a netip.Addr) bool {
	_, own := (*p.roce.ours.Load())[a]
	return own
}

// receives reports whether a flow's packets are for an address whose port this process has open. A
// frame from such an address is a stranger's: the kernel, which drops those, has not seen it.
func (p *Port) receives(f *flow) bool {
	if p.addr.IsValid() {
		return true
	}
	if ours := p.roce.ours.Load(); f.ours != ours {
		f.ours, f.received = ours, (*ours)[f.dst] && !p.isOwn(f.src.Addr())
	}
	return f.received
}

// Waiting implements engine.Ring.
func (p *framePort) Waiting() bool { return p.queue.Waiting() }

// Idle implements engine.Ring.
func (p *framePort) Idle() bool { return !p.queue.Waiting() }

// Arm implements engine.Ring: the poller waits for the queue.
func (p *framePort) Arm() (quiet bool) {
	p.armMu.Lock()
	defer p.armMu.Unlock()
	if !p.armed && !p.ended {
		if err := p.roce.eng.Poller().AddFD(p.queue.FD(), 0); err != nil && !fdtrack.Lost() {
			p.roce.eng.CountReadError()
			return false
		}
		p.armed = true
	}
	return !p.queue.Waiting()
}

// Disarm implements engine.Ring. A poller that waits for the queue costs the kernel some 600 ns for
// each packet: it looks at the poller when a packet comes, and twice when one leaves.
func (p *framePort) Disarm() {
	p.armMu.Lock()
	defer p.armMu.Unlock()
	if p.armed && !p.roce.eng.MaySleep() {
		p.removeLocked()
	}
}

func (p *framePort) removeLocked() {
	if p.armed {
		_ = p.roce.eng.Poller().RemoveFD(p.queue.FD()) // it is there, unless it is lost
		p.armed = false
	}
}

// TakeAll implements engine.Ring.
func (p *framePort) TakeAll() {
	for p.queue.Waiting() && p.TryPoll(false) != 0 {
	}
}

// Frames implements engine.Ring.
func (p *framePort) Frames() bool { return true }

// Shown implements engine.Ring: no C program looks at the ring by itself.
func (p *framePort) Shown() bool { return false }

// Stop implements engine.Input.
func (p *framePort) Stop() {
	p.armMu.Lock()
	p.removeLocked()
	p.ended = true
	p.armMu.Unlock()
	p.rxMu.Lock()
	p.closed = true
	p.rxMu.Unlock()
}

var _ engine.Ring = (*framePort)(nil)
