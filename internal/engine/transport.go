// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// A Transport sends the output of a Conn's machine, and applies modifications. Each framing
// implements it with one type, which embeds Conn and knows more of the machine. Its methods are
// called with the Conn locked, but for PrepareModify.
type Transport interface {
	// FlushOutput writes until the machine has nothing more to send. It unlocks the Conn while it
	// writes; no other thread flushes meanwhile. Without a socket, link or ring it does nothing.
	FlushOutput(now monotime.Time)
	// NotePost notes that the application posted work, before the machine hears of it.
	NotePost()
	// FlushDelayedAck sends delayed output: the application has turned to something else. It may
	// unlock the Conn meanwhile.
	FlushDelayedAck(now monotime.Time)
	// PrepareModify is called without the lock. It opens the sockets and links that the attributes
	// need, such as a socket for the address src. It returns the function that applies the
	// attributes.
	PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr) (
		apply func(now monotime.Time), err error)
	// Route returns how packets reach the peer, for people and tools that look.
	Route() Route
	// Detach takes the sockets and links from the Conn, which is closed. release, to be
	// called without the lock, gives them back.
	Detach() (release func())
}

// Route holds how the packets of a queue pair travel. The zero value is that of one without a peer.
type Route struct {
	Via         Via
	Local, Peer netip.AddrPort // where packets go by IP; the peer of UD is in each work request
	// Path holds what the machine or the system measures; nil if nothing does.
	Path *congestion.Path
	// Flow holds what the machine waits for, nil if it does not say.
	Flow *qp.Flow
}

// Via names the carrier of packets.
type Via string

// Carriers of packets.
const (
	ViaUDP          Via = "udp"
	ViaTCP          Via = "tcp"
	ViaSharedMemory Via = "shared-memory" // a ring of one host
	ViaNTB          Via = "ntb"
	ViaPacketSocket Via = "packet-socket" // whole frames
)

// An Immediate is a Transport that may complete a post at once, where the peer's memory is
// mapped. Its methods are called with the Conn locked.
type Immediate interface {
	// ShortLimit returns the size in bytes of the longest short message with an opcode, 0 if there
	// are none with it.
	ShortLimit(op ib.WROpcode) int
	// PostShort sends a short message, and reports whether it did. If it did not the message is to
	// be posted as others are. After messages other than WRITEs SubmitUnlock is to follow.
	PostShort(m *queue.Short) bool
	// Submit sends posted work, and reports whether nothing is left to do.
	Submit() (all bool)
}

// A TimeoutGuard is a Transport that acts before its machine's time-out.
type TimeoutGuard interface {
	// BeforeTimeout may put the time-out off. It is called with the Conn locked. The caller then
	// calls after, if not nil, without the lock.
	BeforeTimeout(now monotime.Time) (after func())
}

// A Queue is a Transport whose output waits where its peer, a process of this host, has lost its
// core.
type Queue interface {
	// HeldUp reports whether output that waits may go soon, or at once: the peer reads, or has
	// lost its core for no longer than one that runs may. It is called with the Conn locked.
	HeldUp() bool
}

// An Input reads packets that arrive for a transport, such as a port of RoCEv2. Its owner adds its
// descriptor to the engine's poller.
type Input interface {
	// TryPoll handles arrived packets, unless another thread is reading. With mayDelayAck,
	// acknowledgements that can wait are left to Flush. It never blocks, and returns the number of
	// messages, or Busy.
	TryPoll(mayDelayAck bool) int
	// Stop ends reading; it waits for the thread that reads.
	Stop()
}

// Busy is TryPoll's result while another thread is reading. Without mayDelayAck it is also the
// result while another thread sends its answers to messages that it has read.
const Busy = -1

// A Sleeper is an Input of memory that peers write. No poller can wait for it.
type Sleeper interface {
	Input
	// Arm asks the peers to wake the background goroutine, which is about to sleep, for everything
	// they write from now on. quiet is false if something is there already. At the time until, the
	// goroutine is to look again by itself.
	Arm(now monotime.Time) (until monotime.Time, quiet bool)
	// Waiting reports whether a peer has written something that no thread has read.
	Waiting() bool
}

// A Ring is an Input that each poll looks at, before all other inputs and instead of most:
// a look costs a few nanoseconds.
type Ring interface {
	Input
	// Arm asks the peer to ring the bell (Engine.BellFD) once, with its next write. quiet is false
	// if something is there already.
	Arm() (quiet bool)
	// Disarm may end Arm: a thread polls. It does nothing if Engine.MaySleep, called after it has
	// excluded Arm, reports true.
	Disarm()
	// Waiting reports whether a peer has written something that no thread has read.
	Waiting() bool
	// Idle reports whether TryPoll would find nothing to do. It takes no lock.
	Idle() bool
	// TakeAll handles all that the peer has written so far. It waits for the thread that
	// reads.
	TakeAll()
	// Frames reports whether the packets of an interface come by the ring, so that few come by
	// sockets.
	Frames() bool
	// Shown reports whether the Board shows the ring.
	Shown() bool
}

// A Component holds a transport's state for an engine, from its first use on.
type Component interface {
	// BeforeClose is called when the engine is being closed, and still works.
	BeforeClose()
	// Stop is called when the background goroutine has ended.
	Stop()
	// Close is called last: nothing is read any more.
	Close() error
	// Withdraw hides this process, which ends without Close, from other processes.
	Withdraw()
	// AppendCounts appends the transport's counts of a device, and those of the process.
	AppendCounts(a *DeviceCounters, list []Counter) []Counter
}

// BaseComponent does nothing. A Component embeds it for the methods that it does not need.
type BaseComponent struct{}

// BeforeClose implements Component.
func (BaseComponent) BeforeClose() {}

// Stop implements Component.
func (BaseComponent) Stop() {}

// Close implements Component.
func (BaseComponent) Close() error { return nil }

// Withdraw implements Component.
func (BaseComponent) Withdraw() {}

// AppendCounts implements Component.
func (BaseComponent) AppendCounts(_ *DeviceCounters, list []Counter) []Counter { return list }

// ComponentOf returns the component of type P, made by the first call. It must not be called with a
// lock of a transport held.
func ComponentOf[P Component](e *Engine, make func(*Engine) P) P {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range *e.components.Load() {
		if p, ok := p.(P); ok {
			return p
		}
	}
	p := make(e)
	e.addComponentLocked(p)
	return p
}
