// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/shmring"
	"verbena/internal/sys/udp"
)

// Packets between connected queue pairs of one user on one host need no network:
// they go through memory that the two processes share (package ring), or within
// one process through its own. The machines and their packets are the same; only
// the ICRC is not computed, as there is nothing on the way that it protects
// against.
//
//	QP.Modify(RTR) ─► local.to: the destination is an address of this host whose port is
//	                  shared with the process that owns the QPN's slot ─► a ring to it
//
// It is settled before the first packet, for each direction by its sender, and
// stays for as long as the queue pair is connected. Nothing is lost in a ring while the
// process at its other end lives, so nobody is given up that does (question.go). A ring
// ends when that process does: what was in it is lost, and RC queue pairs with work for
// it fail. A ring that is given up, for nonsense in it, is another matter: what follows
// goes through the socket, and the protocol recovers as on any network.
type local struct {
	// immutable after start
	eng      *Engine
	on       bool
	self     shmring.Identity
	listener *shmring.Listener // nil: there are no rings to others

	rings atomic.Pointer[[]*ringIn] // being read; replaced under mu
	quiet atomic.Bool               // nothing came by the other inputs when they were last looked at

	waking atomic.Int32 // connections that may have something to send and are not locked

	board  *shmring.Board // shows the rings; nil: nothing does. Immutable after start
	hidden atomic.Int32   // rings that are not shown

	dialMu sync.Mutex // one at a time

	mu   sync.Mutex
	out  map[int]*ringOut          // guarded by mu: by slot, the one to use
	ends map[*shmring.Out]*ringOut // guarded by mu: all that are not closed; nil after close
}

const (
	// ringPatience is how long a queue pair's way to RTR waits for the other
	// process's background goroutine, which is back from a nap within a
	// fraction of a millisecond if it gets a core. A process that refuses rings does
	// so in that time; one that says nothing is taken to be held up, and has one.
	ringPatience = 50 * monotime.Millisecond
	// socketPolls is every which poll looks at sockets where rings are: a look at
	// an empty one costs as much as 20 polls, and as a message of a ring that
	// comes meanwhile (measured: SEND of 2 bytes 0.95 µs with 16, 0.66 with 64).
	socketPolls = 64
	// ringEvents is what the poller reports where the listener has something.
	ringEvents = ^uint64(1)
)

// start finds out whether there can be rings, and listens. It is called before
// the background goroutine runs.
func (l *local) start(e *Engine, off bool) {
	l.eng, l.out, l.ends = e, map[int]*ringOut{}, map[*shmring.Out]*ringOut{}
	l.rings.Store(&[]*ringIn{})
	if off || !e.faults.None() || e.capture != nil { // what is harmed or captured is what the wire has
		return
	}
	var err error
	if l.self, err = shmring.NetNamespace(e.member.Slot()); err != nil {
		return
	}
	l.on = true
	path := e.member.Meeting(l.self.Slot)
	if path == "" {
		return
	}
	listener, err := shmring.Listen(path, l.self, e.bg.poller.WakeFD(), l.arrived, l.departed)
	if err != nil {
		return // others do not find us and use sockets, and so do we
	}
	if e.bg.poller.AddFD(listener.FD(), ringEvents) != nil {
		listener.Close()
		return
	}
	l.listener = listener
	l.board = shmring.NewBoard()
}

// Withdraw has no process find this one any more, which is about to end without Close.
func (e *Engine) Withdraw() {
	if l := e.local.listener; l != nil {
		l.Withdraw()
	}
}

// close ends all rings. The background goroutine has stopped.
func (l *local) close() {
	if l.listener != nil {
		l.eng.bg.poller.RemoveFD(l.listener.FD())
	}
	l.mu.Lock()
	ends := l.ends
	l.ends = nil
	l.mu.Unlock()
	for _, o := range ends {
		o.close()
	}
	for _, r := range *l.rings.Swap(&[]*ringIn{}) {
		r.close()
	}
	if l.listener != nil {
		l.listener.Close()
	}
	l.board.End()
}

// slotOf is the slot of the process that has a queue pair.
func (l *local) slotOf(q ib.QPN) int {
	if l.eng.member.Meeting(0) == "" {
		return l.self.Slot // this process has all numbers
	}
	return portshare.SlotOf(q)
}

// to returns the ring to the process that has queue pair q at address dst, nil if
// its packets go through the socket.
func (l *local) to(src, dst netip.Addr, q ib.QPN) *ringOut {
	if !l.on {
		return nil
	}
	slot := l.slotOf(q)
	if slot != l.self.Slot && l.listener == nil {
		return nil
	}
	if dst.IsLinkLocalUnicast() {
		dst = dst.WithZone(src.Zone())
	}
	if !l.hosts(dst) {
		return nil
	}
	l.dialMu.Lock()
	defer l.dialMu.Unlock()
	l.mu.Lock()
	o := l.out[slot]
	l.mu.Unlock()
	if o != nil && o.alive() {
		return o
	}
	if slot == l.self.Slot {
		o = l.loop()
	} else {
		o = l.dial(slot)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o != nil {
		l.out[slot] = o
	}
	return o
}

// hosts reports whether the port of an address is shared by this process and
// those that it meets: only then is a slot that of a queue pair's number there.
func (l *local) hosts(dst netip.Addr) bool {
	e := l.eng
	e.mu.Lock()
	ours := e.opened[dst] != nil
	e.mu.Unlock()
	if ours || l.listener == nil {
		return ours
	}
	// An address of this host can be bound. That of a peer which is to listen
	// there and has not yet is opened for it.
	s, err := udp.Listen(dst, 0, udp.Options{SendOnly: true})
	if err != nil {
		return false
	}
	s.Close()
	if !dst.IsLoopback() && interfaceOf(dst) == 0 { // net.ipv4.ip_nonlocal_bind
		return false
	}
	_, err = e.member.Socket(dst)
	return err == nil
}

func (l *local) dial(slot int) *ringOut {
	out, err := shmring.Dial(l.eng.member.Meeting(slot), l.self, slot, ringPatience)
	if err != nil {
		return nil
	}
	o := &ringOut{eng: l.eng, slot: slot, tx: out.Producer, out: out}
	l.mu.Lock()
	open := l.ends != nil
	if open {
		l.ends[out] = o
	}
	l.mu.Unlock()
	if !open || l.listener.Watch(out) != nil {
		l.drop(out)
		out.Close()
		return nil
	}
	return o
}

// drop forgets a ring to another process and returns it, nil if it is not known.
func (l *local) drop(out *shmring.Out) *ringOut {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ends[out]
	delete(l.ends, out)
	if o != nil && l.out[o.slot] == o {
		delete(l.out, o.slot)
	}
	return o
}

// loop makes the ring of this process to itself.
func (l *local) loop() *ringOut {
	tx, rx := shmring.NewPair()
	rx.Arm() // the background goroutine may sleep already, and does not know of it
	l.add(&ringIn{eng: l.eng, slot: l.self.Slot, rx: rx})
	return &ringOut{eng: l.eng, slot: l.self.Slot, tx: tx}
}

func (l *local) add(r *ringIn) {
	if r.in == nil || !l.board.Show(r.rx) { // what is Go's memory is not shown
		l.hidden.Add(1)
	}
	l.mu.Lock()
	next := append(slices.Clone(*l.rings.Load()), r)
	l.rings.Store(&next)
	l.mu.Unlock()
}

// arrived takes a ring that another process made to this one.
func (l *local) arrived(in *shmring.In) {
	l.add(&ringIn{eng: l.eng, slot: in.Peer.Slot, rx: in.Consumer, in: in})
}

// departed ends a ring whose other end has gone. It is called by the background
// goroutine.
func (l *local) departed(end any) {
	switch end := end.(type) {
	case *shmring.In:
		i := slices.IndexFunc(*l.rings.Load(), func(r *ringIn) bool { return r.in == end })
		r := (*l.rings.Load())[i]
		r.readAll() // while TakeArrived can see it
		l.mu.Lock()
		next := slices.DeleteFunc(slices.Clone(*l.rings.Load()), func(o *ringIn) bool { return o == r })
		l.rings.Store(&next)
		l.mu.Unlock()
		r.close()
	case *shmring.Out:
		if o := l.drop(end); o != nil {
			o.close()
			l.mourn(o)
		}
	}
}

// arm has the background goroutine woken for what comes. It reports false if
// something is there.
func (l *local) arm() bool {
	for _, r := range *l.rings.Load() {
		if !r.rx.Arm() {
			return false
		}
	}
	return true
}

func (l *local) disarm() {
	for _, r := range *l.rings.Load() {
		r.rx.Disarm()
	}
}

// waiting reports whether a ring has something. The background goroutine asks,
// which is the one that takes rings away.
func (l *local) waiting() bool {
	return slices.ContainsFunc(*l.rings.Load(), func(r *ringIn) bool { return r.rx.Waiting() })
}

// patient reports whether nothing but what the board shows needs to be looked at
// often.
func (l *local) patient() bool {
	return len(*l.rings.Load()) > 0 && l.hidden.Load() == 0 && l.quiet.Load()
}

// poll reads the rings, and reports whether the other inputs are to be read. It
// stands for so many polls, of which the last one has this number.
func (l *local) poll(last, polls uint64) (messages int, others bool) {
	rings := *l.rings.Load()
	if len(rings) == 0 {
		return 0, true
	}
	for _, r := range rings {
		messages += max(r.tryPoll(true), 0)
	}
	return messages, passed(last, polls, socketPolls) || messages == 0 && !l.quiet.Load()
}
