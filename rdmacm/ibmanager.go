// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/core"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// ibManager is the InfiniBand connection manager of this process: a protocol agent for all
// identifiers of RoCE devices, and one for those of NTB links.
//
// A thread with input for the agent takes the manager's mu, calls the agent and kicks the manager's
// goroutine. Only that polls events: it takes them to identifiers, and sends MADs, without mu.
type ibManager struct {
	// immutable after newIBManager
	m     *manager
	kind  Kind // of the devices that its MADs go over
	svc   gsi
	ports *portTable

	// guarded by m.mu
	agent     *ibcm.Agent
	planned   monotime.Time // when the manager's goroutine calls serve again, at the latest
	conns     map[ibcm.ConnID]*ibConnector
	listeners map[ibcm.ListenerID]*ibConnector

	// of the manager's goroutine
	out     []ibcm.Datagram // empty, of sendBurst
	events  []ibcm.Event
	pending []*ibConnector // with a pendingDisconnect
}

func newIBManager(m *manager, kind Kind, svc gsi, guid ib.GUID) *ibManager {
	b := &ibManager{
		m: m, kind: kind, svc: svc,
		ports: &portTable{svc: svc, random: m.random, bound: map[serviceID][]*binding{}},
		agent: ibcm.New(ibcm.Config{GUID: guid, Slot: uint16(svc.Slot()), Random: m.random,
			ACKDelay: ackDelay}), conns: map[ibcm.ConnID]*ibConnector{},
		listeners: map[ibcm.ListenerID]*ibConnector{}, out: make([]ibcm.Datagram, 0, sendBurst),
	}
	b.agent.Refused = b.refusedLocked
	return b
}

// refusedLocked notes a request that was refused, for the log. manager.mu is held.
func (b *ibManager) refusedLocked(r ibcm.Refusal) {
	if !core.Logs() {
		return
	}
	b.m.noteRefusalLocked(refusal{
		kind: b.kind, local: netip.AddrPortFrom(r.Path.Local, r.ServiceID.Port()),
		peer: netip.AddrPortFrom(r.Path.Remote, 0), peerQPN: r.PeerQPN, why: reasonOf(r.Reason),
	})
}

// ackDelay is the time in which this side acknowledges, as a time code: the device attribute
// LocalCAAckDelay, 134 ms.
const ackDelay = 15

// start takes MADs from the engine.
func (b *ibManager) start() {
	b.svc.OnMAD(b.handleMAD)
	b.svc.OnLoss(b.handleLoss)
}

func (b *ibManager) stop() {
	b.svc.OnMAD(nil)
	b.svc.OnLoss(nil)
}

// handleMAD takes a MAD from the engine.
func (b *ibManager) handleMAD(meta *roce.Meta, mad []byte) {
	b.m.mu.Lock()
	path := ibcm.Path{Local: b.m.localLocked(meta.Dst), Remote: meta.Src}
	if ownPort(meta) {
		b.agent.HandleOwnMAD(monotime.Now(), path, mad)
	} else {
		b.agent.HandleMAD(monotime.Now(), path, mad)
	}
	due := b.dueLocked()
	b.m.mu.Unlock()
	if due {
		b.m.kick()
	}
}

// ownPort reports whether a datagram was certainly sent from the port that it arrived at. Those
// between this user's processes are. No process of another user can bind the port. Linux drops
// datagrams from the network that name a local IPv4 address, or ::1, as their source. It does not
// do so with other IPv6 addresses.
func ownPort(m *roce.Meta) bool {
	return m.Src == m.Dst && m.SrcPort == roce.UDPPort && (m.Src.Is4() || m.Src.IsLoopback())
}

// handleLoss has unanswered messages repeated at once: MADs may have been lost.
func (b *ibManager) handleLoss() {
	b.m.mu.Lock()
	b.agent.Repeat()
	b.m.mu.Unlock()
	b.m.kick()
}

// serve does due work, on the manager's goroutine. It returns when it is to be called next, and
// whether there was something to do.
func (b *ibManager) serve(now monotime.Time) (next monotime.Time, busy bool) {
	b.m.mu.Lock()
	b.agent.HandleTimeout(now)
	b.events = b.events[:0]
	for ev, ok := b.agent.PollEvent(); ok; ev, ok = b.agent.PollEvent() {
		b.events = append(b.events, ev)
	}
	busy = b.agent.Waiting() || len(b.events) > 0
	next, _ = b.agent.NextTimeout()
	b.planned = next
	b.m.mu.Unlock()
	if b.flush(b.out) {
		next, busy = min(next, now.Add(sendPause)), len(b.events) > 0
	}
	for _, ev := range b.events {
		b.dispatch(ev)
	}
	b.raiseDisconnects()
	if len(b.pending) > 0 {
		next = min(next, now.Add(disconnectPoll))
	}
	return next, busy
}

const (
	// sendPause is the pause after which MADs are sent for which there was no room.
	sendPause = monotime.Millisecond
	// sendBurst is the number of MADs taken from the agent at a time.
	sendBurst = 16
)

// flush sends the agent's output, which it copies to out. It reports whether some is left, because
// there was no room to send it.
func (b *ibManager) flush(out []ibcm.Datagram) (blocked bool) {
	for {
		b.m.mu.Lock()
		out = b.outputLocked(out[:0])
		b.m.mu.Unlock()
		if len(out) == 0 {
			return false
		}
		if unsent := b.send(out); len(unsent) > 0 {
			b.m.mu.Lock()
			b.agent.PutBack(unsent)
			b.m.mu.Unlock()
			return true
		}
	}
}

func (b *ibManager) outputLocked(out []ibcm.Datagram) []ibcm.Datagram {
	var d ibcm.Datagram
	for len(out) < sendBurst && b.agent.PollOutput(&d) {
		out = append(out, d)
	}
	return out
}

// send sends MADs until there is no room, and returns the rest: the peer of one that is lost asks
// again only seconds later. Any other that cannot be sent counts as lost: the agent repeats it.
func (b *ibManager) send(out []ibcm.Datagram) (unsent []ibcm.Datagram) {
	for i := range out {
		d := &out[i]
		err := b.svc.SendMAD(d.Path.Local, d.Path.Remote, d.MAD[:])
		if errors.Is(err, syscall.EAGAIN) {
			return out[i:]
		}
	}
	return nil
}

// dueLocked reports whether serve is to be called before the time that the manager's goroutine
// plans to. The goroutine also ends the manager, after the last identifier.
func (b *ibManager) dueLocked() bool {
	next, _ := b.agent.NextTimeout()
	return next < b.planned || b.agent.Waiting() || b.m.refs == 0
}

// idleLocked reports whether nothing is to be sent or repeated any more.
func (b *ibManager) idleLocked() bool { return b.agent.Pending() == 0 && !b.agent.Waiting() }

// command runs f on the agent and sends its output before it returns: a process may end right after
// it disconnected.
func (b *ibManager) command(f func(a *ibcm.Agent, now monotime.Time) error) error {
	b.m.mu.Lock()
	err := f(b.agent, monotime.Now())
	b.m.mu.Unlock()
	b.flush(nil)
	b.m.mu.Lock()
	due := b.dueLocked()
	b.m.mu.Unlock()
	if due {
		b.m.kick()
	}
	return err
}
