// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"verbena/ib"
	"verbena/internal/cm/ibcm"
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
	out     []ibcm.Datagram
	events  []ibcm.Event
	pending []*ibConnector // with a pendingDisconnect
}

func newIBManager(m *manager, kind Kind, svc gsi, guid ib.GUID) *ibManager {
	return &ibManager{
		m: m, kind: kind, svc: svc,
		ports: &portTable{svc: svc, random: m.random, bound: map[serviceID][]*binding{}},
		agent: ibcm.New(ibcm.Config{GUID: guid, Slot: uint16(svc.Slot()), Random: m.random,
			ACKDelay: ackDelay}), conns: map[ibcm.ConnID]*ibConnector{},
		listeners: map[ibcm.ListenerID]*ibConnector{},
	}
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

// ownPort reports whether a datagram was certainly sent from the port that it arrived at, as those
// of this user's processes to one another are. No process of another user can bind the port, and
// Linux drops datagrams from the network that name a local IPv4 address, or ::1, as their source.
// It does not do so with other IPv6 addresses.
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

// serve does what is due, on the manager's goroutine. It returns when it is to
// be called next, and whether there was something to do.
func (b *ibManager) serve(now monotime.Time) (next monotime.Time, busy bool) {
	b.m.mu.Lock()
	b.agent.HandleTimeout(now)
	b.events = b.events[:0]
	for ev, ok := b.agent.PollEvent(); ok; ev, ok = b.agent.PollEvent() {
		b.events = append(b.events, ev)
	}
	b.out = b.outputLocked(b.out[:0])
	next, _ = b.agent.NextTimeout()
	b.planned = next
	b.m.mu.Unlock()
	b.send(b.out)
	for _, ev := range b.events {
		b.dispatch(ev)
	}
	b.raiseDisconnects()
	if len(b.pending) > 0 {
		next = min(next, now.Add(disconnectPoll))
	}
	return next, len(b.out)+len(b.events) > 0
}

func (b *ibManager) outputLocked(out []ibcm.Datagram) []ibcm.Datagram {
	var d ibcm.Datagram
	for b.agent.PollOutput(&d) {
		out = append(out, d)
	}
	return out
}

// send sends MADs. A MAD that cannot be sent counts as lost: the agent repeats it.
func (b *ibManager) send(out []ibcm.Datagram) {
	for i := range out {
		d := &out[i]
		_ = b.svc.SendMAD(d.Path.Local, d.Path.Remote, d.MAD[:])
	}
}

// dueLocked reports whether serve is to be called before the time that the manager's goroutine
// plans to. The goroutine also ends the manager, after the last identifier.
func (b *ibManager) dueLocked() bool {
	next, _ := b.agent.NextTimeout()
	return next < b.planned || b.agent.Waiting() || b.m.refs == 0
}

// idleLocked reports whether nothing is to be repeated any more.
func (b *ibManager) idleLocked() bool { return b.agent.Pending() == 0 }

// command runs f on the agent and sends its output before it returns: a process may end right after
// it disconnected.
func (b *ibManager) command(f func(a *ibcm.Agent, now monotime.Time) error) error {
	b.m.mu.Lock()
	err := f(b.agent, monotime.Now())
	out := b.outputLocked(nil)
	due := b.dueLocked()
	b.m.mu.Unlock()
	b.send(out)
	if due {
		b.m.kick()
	}
	return err
}
