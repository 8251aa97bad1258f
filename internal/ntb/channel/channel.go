// SPDX-License-Identifier: BSD-2-Clause

package channel

import (
	"verbena/internal/monotime"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// Times. The original writes its heartbeat every 100 ms, looks every 257 ms and
// gives a peer up after 10 times in vain.
const (
	pingInterval = 100 * monotime.Millisecond
	peerSilence  = 2570 * monotime.Millisecond
	helloLimit   = 5 * monotime.Second
	refusedPause = monotime.Second
	// absence is the delay of our own heartbeat that shows that we were stopped,
	// maybe with the whole machine.
	absence = 5 * pingInterval
)

// Versions of the formats that this package speaks.
const (
	lowestVersion  = 1
	highestVersion = 1
)

// A Client lives on the link.
type Client interface {
	// HelloSend appends the bytes of a phase, at most wire.MaxHelloBytes. In the
	// first it lays its window out afresh: nothing of an earlier session is
	// written there any more.
	HelloSend(phase uint16, b []byte) []byte
	// HelloRecv takes the peer's bytes of a phase, false if they cannot be.
	HelloRecv(phase uint16, b []byte) bool
	// LinkUp is called when all phases are through: now the client may write.
	LinkUp(now monotime.Time)
	// LinkDown reports that earlier writes may be lost and nothing more will come.
	LinkDown(now monotime.Time)
}

// A Channel is one node's end of a link.
type Channel struct {
	Count [NumCounters]uint64
	Trace func(from, to State) // if not nil, called with every change
	// Watched says, from before Attach on, that the back end tells at once when the
	// peer ends: one whose heartbeat stands still is stopped, and goes on.
	Watched bool

	// immutable after New
	client Client
	seed   func() uint64

	state     State
	own       *window.Window // the peer writes it
	peerBytes uint64         // length of the window that we write

	session uint64
	peer    uint64 // the session of the peer that we echo; 0: none
	version uint16
	phase   uint16 // of the peer's, that is awaited

	out  []word // to be written
	rung bool   // the words want a signal

	signal uint32 // counts our batches
	seen   uint32 // the peer's signal word, as Handle last saw it
	asleep uint32 // counts our sleeps
	woken  uint32 // the peer's sleep that we ended last

	ping     uint32 // counts our heartbeats
	heardAs  uint32 // the peer's heartbeat word,
	heardAt  monotime.Time
	pingDue  monotime.Time
	deadline monotime.Time // of the hello, or of the pause after one that failed
	ownFrom  monotime.Time // see Stale
}

// word is a write into the peer's info page.
type word struct {
	to    uint64
	value uint64
	size  uint8
	data  []byte // instead of a value
}

// New returns a channel that is Down. seed gives the random numbers of the sessions. Values that
// the peer compares with the last ones begin at random, too: the last ones may be another
// process's.
func New(client Client, seed func() uint64) *Channel {
	return &Channel{client: client, seed: seed, deadline: monotime.Never, signal: uint32(seed()),
		asleep: uint32(seed()), ping: uint32(seed())}
}

// State returns where the link stands.
func (c *Channel) State() State { return c.state }

// Version returns the version agreed on, while the link is up.
func (c *Channel) Version() uint16 { return c.version }

// Current reports whether the peer is, as far as it has said, in the session that the
// link is up in.
func (c *Channel) Current() bool {
	return c.state == Up && c.own.Load8(wire.OffSession) == c.peer
}

// Own returns the window that the peer writes.
func (c *Channel) Own() *window.Window { return c.own }

// PeerContains reports whether n bytes at offset at are in the peer's window,
// behind its info page.
func (c *Channel) PeerContains(at, n uint64) bool {
	return at >= wire.InfoBytes && at <= c.peerBytes && n <= c.peerBytes-at
}

// Attach gives the link its back end: the peer writes own, and peerBytes is the length of the
// window that we write.
func (c *Channel) Attach(now monotime.Time, own *window.Window, peerBytes uint64) {
	if c.state != Down {
		panic("ntb: attached twice")
	}
	c.own, c.peerBytes = own, peerBytes
	c.ownFrom = now.Add(peerSilence)
	c.begin(now)
}

// Detach handles the loss of the back end.
func (c *Channel) Detach(now monotime.Time) {
	if c.state == Down {
		return
	}
	c.Count[BackendLost]++
	was := c.state
	c.setState(Down)
	c.out, c.rung, c.deadline = c.out[:0], false, monotime.Never
	if was == Up {
		c.client.LinkDown(now)
	}
}

// Stale reports whether the peer may not have noticed yet that an earlier session is over. It is
// one of this process or of one that had the window before it. Until then it may still write to any
// memory that it was allowed to. It ends when the peer echoes our session, or with the time in
// which a silent peer would have been found out. A peer that is stopped for longer, in the middle
// of a write, is not known of.
func (c *Channel) Stale(now monotime.Time) bool {
	return c.state == Probing && now.Before(c.ownFrom) &&
		c.own.Load4(wire.OffMagic) == wire.Magic && c.own.Load8(wire.OffSession) != 0
}

// Reset begins a new session, as the client or the administrator wants it.
func (c *Channel) Reset(now monotime.Time) { c.restart(now, Resets) }

// restart leaves the session.
func (c *Channel) restart(now monotime.Time, why Counter) {
	if c.state == Down {
		return
	}
	c.Count[why]++
	was := c.state
	if why != PeerRestarted && why != PeerSilent {
		// those know that we are apart, or had their time
		c.ownFrom = now.Add(peerSilence)
	}
	c.begin(now)
	if was == Up {
		c.client.LinkDown(now)
	}
}

// begin draws a session and announces it. The order of the words matters: nothing of the last
// session may be taken for this one's.
func (c *Channel) begin(now monotime.Time) {
	c.setState(Probing)
	c.peer, c.phase = 0, 0
	for c.session = c.seed(); c.session == 0; c.session = c.seed() {
	}
	c.deadline = monotime.Never
	c.out = c.out[:0]
	c.write4(wire.HelloWordAt(1), 0)
	c.write4(wire.HelloWordAt(2), 0)
	c.write8(wire.OffEcho, 0)
	c.write4(wire.OffVersions, uint32(wire.NewVersions(lowestVersion, highestVersion)))
	c.write4(wire.OffMagic, wire.Magic)
	c.write8(wire.OffSession, c.session)
	c.heartbeat(now)
	c.rung = true
}

func (c *Channel) write4(to uint64, v uint32) {
	c.out = append(c.out, word{to: to, value: uint64(v), size: 4})
}

func (c *Channel) write8(to uint64, v uint64) {
	c.out = append(c.out, word{to: to, value: v, size: 8})
}

// maxOut bounds the writes that wait for a back end that does not take them: a heartbeat that would
// be stale is left out.
const maxOut = 64

func (c *Channel) heartbeat(now monotime.Time) {
	c.pingDue = now.Add(pingInterval)
	if len(c.out) < maxOut {
		c.ping++
		c.write4(wire.OffPing, c.ping)
	}
}

// Handle looks at the info page: after a signal, and whenever it pleases. It
// reports whether the link is up.
func (c *Channel) Handle(now monotime.Time) (up bool) {
	if c.state == Down {
		return false
	}
	c.seen = c.own.Load4(wire.OffSignal)
	c.listen(now)
	for c.step(now) {
	}
	return c.state == Up
}

// listen notes the peer's heartbeat.
func (c *Channel) listen(now monotime.Time) {
	if p := c.own.Load4(wire.OffPing); p != c.heardAs {
		c.heardAs, c.heardAt = p, now
	}
}

// step goes one step on, if the info page allows it.
func (c *Channel) step(now monotime.Time) bool {
	w := c.own
	echo := w.Load8(wire.OffEcho) // before the session: an old echo with a new session is no harm
	peer := w.Load8(wire.OffSession)
	if w.Load4(wire.OffMagic) != wire.Magic {
		peer = 0
	}
	if c.state != Probing && peer != c.peer {
		c.restart(now, PeerRestarted)
		return true
	}
	switch c.state {
	case Probing:
		if peer != c.peer {
			c.peer = peer
			c.write8(wire.OffEcho, peer)
			c.rung = true
		}
		if peer == 0 || echo != c.session {
			return false
		}
		var ok bool
		ours, theirs := wire.NewVersions(lowestVersion, highestVersion), w.Load4(wire.OffVersions)
		c.version, ok = ours.Agree(wire.Versions(theirs))
		if !ok {
			c.refuse(now, NoVersion)
			return false
		}
		c.setState(Hello)
		c.heardAt, c.deadline = now, now.Add(helloLimit)
		c.phase = 1
		c.hello(1)
		return true
	case Hello:
		return c.takeHello(now)
	}
	return false
}

// hello writes our bytes of a phase: the bytes, then the word that shows them.
func (c *Channel) hello(phase uint16) {
	b := c.client.HelloSend(phase, nil)
	if len(b) > wire.MaxHelloBytes {
		panic("ntb: hello too long")
	}
	c.out = append(c.out, word{to: wire.HelloDataAt(phase), data: b})
	c.write4(wire.HelloWordAt(phase), uint32(wire.NewHelloWord(phase, len(b))))
	c.rung = true
}

// takeHello takes the peer's bytes of the phase awaited, if they are there.
func (c *Channel) takeHello(now monotime.Time) bool {
	w := c.own
	h := wire.HelloWord(w.Load4(wire.HelloWordAt(c.phase)))
	if h.Phase() != c.phase {
		return false
	}
	var room [wire.MaxHelloBytes]byte
	n := h.Size()
	if n > len(room) {
		c.refuse(now, BadHello)
		return false
	}
	w.CopyOut(wire.HelloDataAt(c.phase), room[:n])
	if w.Load8(wire.OffSession) != c.peer { // the bytes may be of the next session
		return true
	}
	if !c.client.HelloRecv(c.phase, room[:n]) {
		c.refuse(now, BadHello)
		return false
	}
	if c.phase == wire.PhaseReady {
		c.setState(Up)
		c.deadline = monotime.Never
		c.Count[LinkUps]++
		c.client.LinkUp(now)
		return false
	}
	c.phase++
	c.hello(c.phase)
	return true
}

func (c *Channel) refuse(now monotime.Time, why Counter) {
	c.Count[why]++
	c.setState(Refused)
	c.deadline = now.Add(refusedPause)
}

// NextTimeout returns when HandleTimeout is due.
func (c *Channel) NextTimeout() monotime.Time {
	if c.state == Down {
		return monotime.Never
	}
	return min(c.pingDue, c.deadline)
}

// HandleTimeout sends the heartbeat and looks for the peer's.
func (c *Channel) HandleTimeout(now monotime.Time) {
	if c.state == Down {
		return
	}
	if now.Sub(c.pingDue) >= absence {
		// then that the peer was not heard meanwhile says nothing of it
		c.heardAt = now
	}
	if !now.Before(c.pingDue) {
		c.heartbeat(now)
	}
	c.Handle(now)
	switch {
	case !c.Watched && (c.state == Hello || c.state == Up) && now.Sub(c.heardAt) >= peerSilence:
		c.restart(now, PeerSilent)
	case now.Before(c.deadline):
	case c.state == Hello:
		c.restart(now, SlowHello)
	case c.state == Refused:
		c.begin(now)
	}
}

// PollOutput appends the link's own writes. They come before the client's.
func (c *Channel) PollOutput(b *Batch) bool {
	if len(c.out) == 0 {
		return false
	}
	for _, o := range c.out {
		switch {
		case o.data != nil:
			b.Copy(o.to, o.data)
		case o.size == 4:
			b.Word4(o.to, uint32(o.value))
		default:
			b.Word8(o.to, o.value)
		}
	}
	c.out = c.out[:0]
	if c.rung {
		c.rung = false
		c.Ring(b)
	}
	return true
}

// Ring ends a batch with the signal.
func (c *Channel) Ring(b *Batch) {
	c.signal++
	b.Word4(wire.OffSignal, c.signal)
	b.rung = true
}

// Sleep announces to the peer that we are about to sleep and want to be woken. When it is written,
// Quiet says whether sleeping is still right.
func (c *Channel) Sleep() {
	if c.state != Down && len(c.out) < maxOut {
		c.asleep++
		c.write4(wire.OffAsleep, c.asleep)
	}
}

// Seen returns the peer's signal word as Handle saw it last: another one, and
// there is something new.
func (c *Channel) Seen() uint32 { return c.seen }

// Quiet reports whether nothing came since the last Handle.
func (c *Channel) Quiet() bool {
	return c.state == Down || c.own.Load4(wire.OffSignal) == c.seen
}

// MustWake reports whether the peer sleeps and wants to be woken. It is asked
// after a batch that Rung was carried out, and says so once a sleep.
func (c *Channel) MustWake() bool {
	if c.state == Down {
		return false
	}
	a := c.own.Load4(wire.OffAsleep)
	if a == c.woken {
		return false
	}
	c.woken = a
	return true
}
