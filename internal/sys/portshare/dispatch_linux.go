// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"maps"
	"slices"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/udp"
)

// maxReady bounds the groups reported by one wait; others come with the next.
const maxReady = 16

// poll makes the keeper read slot 0 of a group. m.mu is held.
func (k *keeper) poll(g *group) {
	key := g.addr.WithZone("")
	if k.polled[key] == nil {
		k.polled[key] = g
		k.poller.Add(g.sockets[0], uint64(g.sockets[0].FD()))
	}
}

// serveMADs reads slot 0 of every group and passes on what arrives.
func (k *keeper) serveMADs() {
	defer k.m.gone.Done()
	defer close(k.quiet)
	b := udp.NewRxBatch()
	ready := make([]uint64, maxReady)
	var from []*udp.Socket
	var looked monotime.Time
	var busy monotime.Duration   // since there was nothing more to read, or the last pause
	var bursts monotime.Duration // since there was nothing more to read
	for {
		patience := monotime.Duration(-1)
		if len(k.late) > 0 {
			patience = lateEvery
		}
		n, err := k.poller.Wait(patience, ready)
		if err != nil {
			p := pause{next: pauseMax}
			p.wait()
		}
		k.m.mu.Lock()
		over := k.m.role == left
		from = from[:0]
		for _, g := range k.polled {
			if slices.Contains(ready[:n], uint64(g.sockets[0].FD())) {
				from = append(from, g.sockets[0])
			}
		}
		k.m.mu.Unlock()
		if over {
			k.settle()
			return
		}
		start, more := monotime.Now(), false
		k.catchUp()
		if now := monotime.Now(); now.Sub(looked) >= lateEvery*monotime.Duration(1+len(k.late)/lateFew) {
			looked = now
			k.retryLate()
		}
		for _, s := range from {
			more = k.read(s, b) || more
		}
		if busy = busy + monotime.Now().Sub(start); !more {
			busy, bursts = 0, 0
		} else if busy > burst {
			bursts++
			futex.Sleep(burst * min(1+bursts/floodBursts, maxPause))
			busy = 0
		}
	}
}

const (
	// burst is how long the keeper passes datagrams on without a pause. If there is no end
	// of them it then pauses for as long: many that connect at once have half of a
	// processor.
	burst = monotime.Millisecond
	// Datagrams without end for so many bursts are a flood: each pause then grows by a
	// burst, up to maxPause. Strangers who flood the keeper have a quarter of a processor,
	// and the kernel drops what it does not read.
	floodBursts = 16
	maxPause    = 3
)

// read passes on what one wait has reported. A datagram stays in the socket until
// it is passed on: many a program ends as soon as it has disconnected, and what
// it had in its hands as the keeper the peer would wait for in vain. It reports whether
// there may be more.
func (k *keeper) read(s *udp.Socket, b *udp.RxBatch) (more bool) {
	for range udp.RxMessages {
		if n, _ := s.Peek(b); n == 0 { // an error shows in the next wait
			return false
		}
		m, now := b.Message(0), time.Now()
		datagram := func(j int) MAD { return MAD{Src: m.Src, Dst: m.Dst, TOS: m.TOS, Payload: m.Segment(j)} }
		k.here = k.here[:0]
		for j := range m.Segments() {
			if k.passOn(datagram(j), now) {
				k.here = append(k.here, j)
			}
		}
		s.Take(b)
		for _, j := range k.here {
			k.m.opt.OnMAD(datagram(j))
		}
	}
	return true
}

// lateMAD is a management datagram for a member that is not connected, which has
// lost its keeper and is about to find us, or one that nobody listens for yet.
type lateMAD struct {
	MAD
	came time.Time
}

const (
	// lateEvery is how soon a late datagram is looked at again: joining a keeper
	// takes less.
	lateEvery = 2 * monotime.Millisecond
	// maxLate bounds them; more are lost, and their senders repeat them.
	maxLate = 256
	// lateFew is how many of them are looked at again every lateEvery. More are looked at
	// in proportion less often, so that a look at 256 costs a flood of them little.
	lateFew = 64
)

// listenPatience is how long a request waits for somebody to listen. Applications
// say that they are about to listen and expect to be faster than their peer
// connects; on a machine with more of them than cores they may not be, and one
// that is refused gives up. A peer waits seconds for an answer. Longer in tests.
var listenPatience = 50 * time.Millisecond

func (k *keeper) retryLate() {
	late := k.late
	k.late = k.spare[:0]
	for i := range late {
		if d := &late[i]; k.passOn(d.MAD, d.came) {
			k.m.opt.OnMAD(d.MAD)
		}
	}
	k.spare = late
}

// keep has a datagram looked at again, if there is room. The memory is that of one
// that was kept before.
func (k *keeper) keep(d MAD, came time.Time) {
	n := len(k.late)
	if n == maxLate {
		return
	}
	k.late = slices.Grow(k.late, 1)[:n+1]
	l := &k.late[n]
	d.Payload = append(l.Payload[:0], d.Payload...)
	*l = lateMAD{d, came}
}

// passOn passes a management datagram to the member it is for, and reports
// whether it is for this one. It waits for a
// member that is not connected and may be the one, and a moment for one that
// listens. What nobody listens for, and
// what is for a slot that nobody owns, stays here: the keeper's CM refuses it.
// What is for a slot whose owner lives and does not come is lost: that owner is
// stopped, and its peers try again.
func (k *keeper) passOn(d MAD, came time.Time) (here bool) {
	r := k.m.opt.Route(d.Payload, d.Dst)
	to := k.to[:0]
	absent := false
	k.m.mu.Lock()
	switch r.To {
	case ToKey:
		for i := range r.Keys.Len() {
			if slot, ok := k.listeners[string(r.Keys.At(i))]; ok { // does not allocate
				r.Slot = slot
				break
			}
		}
		absent = r.Slot == 0
		fallthrough
	case ToSlot:
		if l := k.peers[r.Slot]; l != nil {
			to = append(to, l)
		} else {
			here = true
			absent = absent || r.Slot != 0 && r.Slot != k.m.slot
		}
	case ToAll:
		here = true
		to = slices.AppendSeq(to, maps.Values(k.peers))
	}
	k.to = to
	joined := k.joined
	k.m.mu.Unlock()
	if absent {
		waited := time.Since(came)
		// A member that comes to a new keeper says what it listens to only then.
		unheard := r.Slot == 0 && (waited < listenPatience || waited < reapPatience && time.Since(joined) < listenPatience)
		expected := !unheard && k.expects(r.Slot)
		if unheard || expected && waited < reapPatience {
			k.keep(d, came)
			return false
		}
		if expected && r.Slot != 0 {
			return false
		}
	}
	if len(d.Payload) > maxForwardBytes {
		return here
	}
	for _, l := range to {
		k.forward(l, d)
	}
	return here
}

// expects reports whether the owner of a slot lives and is not connected; for
// slot 0 whether any is.
func (k *keeper) expects(slot int) bool {
	if slot != 0 {
		return k.m.lock.held(slot, 1)
	}
	// A look at every slot's lock takes some 60 system calls: not for each late datagram.
	if now := monotime.Now(); now.Sub(k.asked) >= lateEvery {
		k.asked, k.expected = now, k.awaited()
	}
	return k.expected
}
