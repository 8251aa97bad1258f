// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/udp"
)

// maxReady bounds the groups reported by one wait; others come with the next.
const maxReady = 16

// serveMADs reads the keeper's socket of every group and passes its datagrams on.
func (k *keeper) serveMADs() {
	defer k.gone.Done()
	defer close(k.quiet)
	b := udp.NewRxBatch()
	ready := make([]uint64, maxReady)
	var from []*udp.Socket
	var looked monotime.Time
	a := allowance{left: maxAllowance, at: monotime.Now()}
	for {
		patience := monotime.Duration(-1)
		if len(k.late) > 0 {
			patience = lateEvery
		}
		n, err := k.poller.Wait(patience, ready)
		if err != nil {
			if fdtrack.Lost() { // the application has closed our descriptors
				return
			}
			p := pause{next: pauseMax}
			p.wait()
		}
		k.mu.Lock()
		over, unused := k.over, k.unused
		from = from[:0]
		for _, id := range ready[:n] {
			if s := k.polled[id]; s != nil {
				from = append(from, s)
			}
		}
		k.mu.Unlock()
		if over {
			k.settle()
			return
		}
		if unused {
			k.forget()
			continue
		}
		start := monotime.Now()
		k.catchUp()
		every := lateEvery * monotime.Duration(1+len(k.late)/lateFew)
		if start.Sub(looked) >= every {
			looked = start
			k.retryLate()
		}
		for _, s := range from {
			k.read(s, b)
		}
		if pause := a.spend(start, monotime.Now()); pause > 0 {
			futex.Sleep(pause)
		}
	}
}

// An allowance is the processor time that the keeper may still spend on datagrams. Time refills it
// at a quarter of its own pace, up to maxAllowance. So many peers that connect at once are served
// without a pause, and strangers that flood the keeper have a quarter of a processor. The kernel
// drops the datagrams that the keeper does not read.
type allowance struct {
	left monotime.Duration // negative after overspending
	at   monotime.Time     // when left was right
}

const (
	// maxAllowance lets the keeper forward the REQs of some thousand peers without a pause.
	maxAllowance = 64 * monotime.Millisecond
	// refill is the time in which an allowance grows by one unit.
	refill = 4
	// overdraft bounds the number of pauses: the keeper overspends by so much before it pauses.
	overdraft = monotime.Millisecond
	// maxOverdraft bounds a pause: a keeper that waited for a processor, or was stopped, has spent
	// less than the time that went by.
	maxOverdraft = 8 * monotime.Millisecond
)

// spend takes the time from start to now. It returns the length of the pause that follows, if any.
func (a *allowance) spend(start, now monotime.Time) (pause monotime.Duration) {
	a.left = min(a.left+now.Sub(a.at)/refill, maxAllowance) - now.Sub(start)
	a.left = max(a.left, -maxOverdraft)
	a.at = now
	if a.left > -overdraft {
		return 0
	}
	return -a.left * refill
}

// read passes on the datagrams that one wait has reported. A datagram stays in the socket until it
// is passed on: a keeper that is killed leaves it to the next one.
func (k *keeper) read(s *udp.Socket, b *udp.RxBatch) {
	for range udp.RxMessages {
		if n, _ := s.Peek(b); n == 0 { // an error shows in the next wait
			return
		}
		m, now := b.Message(0), time.Now()
		for j := range m.Segments() {
			k.passOn(MAD{Src: m.Src, Dst: m.Dst, TOS: m.TOS, Payload: m.Segment(j)}, now)
		}
		s.Take(b)
	}
}

// lateMAD is a management datagram that waits: for a member that is not connected, which has lost
// its keeper and is about to find us, or for a listener.
type lateMAD struct {
	MAD
	came time.Time
}

const (
	// lateEvery is the interval at which a late datagram is looked at again: joining a keeper takes
	// less.
	lateEvery = 2 * monotime.Millisecond
	// maxLate bounds them; more are lost, and their senders repeat them.
	maxLate = 256
	// lateFew is the number of late datagrams that are looked at again every lateEvery. More are
	// looked at less often in proportion, so that a flood's look at 256 costs little.
	lateFew = 64
)

// listenPatience bounds the time for which a request waits for a listener. Applications announce
// that they are about to listen, and expect to be faster than their peer connects. With more of
// them than cores they may not be, and a refused peer gives up. A peer waits seconds for an answer.
// Longer in tests.
var listenPatience = 50 * time.Millisecond

const (
	// relistenPatience bounds the wait where a process has listened until so long ago: a program
	// that takes one connection after the other may listen anew for each.
	relistenPatience = time.Second
	maxLately        = 64 // keys that are remembered for it
)

// endedLocked notes that nobody listens for a key any more. k.mu is held.
func (k *keeper) endedLocked(key string) {
	maps.DeleteFunc(k.lately, func(_ string, since time.Time) bool {
		return time.Since(since) > relistenPatience
	})
	if len(k.lately) < maxLately {
		k.lately[key] = time.Now()
	}
}

// relistensLocked reports whether somebody has just listened for one of some keys. k.mu is
// held.
func (k *keeper) relistensLocked(keys *Keys) bool {
	for i := range keys.Len() {
		if since, ok := k.lately[string(keys.At(i))]; ok &&
			time.Since(since) < 2*relistenPatience {
			return true
		}
	}
	return false
}

func (k *keeper) retryLate() {
	late := k.late
	k.late = k.spare[:0]
	for i := range late {
		k.passOn(late[i].MAD, late[i].came)
	}
	k.spare = late
}

// keep has a datagram looked at again, if there is room. The memory is that of one
// that was kept before.
func (k *keeper) keep(d MAD, came time.Time) {
	n := len(k.late)
	if n == maxLate {
		k.lost.Add(1)
		return
	}
	k.late = slices.Grow(k.late, 1)[:n+1]
	l := &k.late[n]
	d.Payload = append(l.Payload[:0], d.Payload...)
	*l = lateMAD{d, came}
}

// passOn passes a management datagram to the member it is for. It waits for a member that is not
// connected and may be the one, and a moment for one that listens. It refuses a datagram without a
// listener, or for a slot without an owner. A datagram for a slot whose owner lives and does not
// come is lost: that owner is stopped, and its peers try again.
func (k *keeper) passOn(d MAD, came time.Time) {
	r := k.rules.Route(d.Payload, d.Dst)
	k.mu.Lock()
	slot := k.memberLocked(&r)
	k.to = k.to[:0]
	if r.To == ToAll {
		k.to = slices.AppendSeq(k.to, maps.Values(k.peers))
	} else if l := k.peers[slot]; l != nil {
		k.to = append(k.to, l)
	}
	unheard := r.To == ToKey && slot < 0 && k.mayListenLocked(&r.Keys, time.Since(came))
	k.mu.Unlock()
	switch {
	case len(k.to) > 0:
	case unheard:
		k.keep(d, came)
	case r.To == ToKey || r.To == ToSlot:
		k.awaitMember(slot, d, came)
	}
	if len(d.Payload) > maxForwardBytes {
		return
	}
	for _, l := range k.to {
		k.forward(l, d)
	}
}

// memberLocked returns the slot of the one member that a datagram is for, or -1.
func (k *keeper) memberLocked(r *Route) int {
	switch r.To {
	case ToSlot:
		return r.Slot
	case ToKey:
		for i := range r.Keys.Len() {
			if owner, ok := k.listeners[string(r.Keys.At(i))]; ok { // does not allocate
				return owner
			}
		}
	}
	return -1
}

// mayListenLocked reports whether a datagram that has waited for a listener is to wait on.
func (k *keeper) mayListenLocked(keys *Keys, waited time.Duration) bool {
	return waited < listenPatience ||
		// A member that comes to a new keeper names its listeners only then.
		waited < reapPatience && time.Since(k.joined) < listenPatience ||
		waited < relistenPatience && k.relistensLocked(keys)
}

// awaitMember keeps a datagram for the owner of a slot that is not connected, or for any member if
// the slot is negative. It refuses the datagram if no such member lives.
func (k *keeper) awaitMember(slot int, d MAD, came time.Time) {
	switch expected := k.expects(slot); {
	case expected && time.Since(came) < reapPatience:
		k.keep(d, came)
	case !expected || slot < 0:
		k.refuse(d)
	default:
		k.lost.Add(1)
	}
}

// refuse answers a datagram for nobody.
func (k *keeper) refuse(d MAD) {
	k.mu.Lock()
	g := k.groups[d.Dst.WithZone("")]
	k.mu.Unlock()
	if g == nil || k.rules.Refuse == nil {
		return
	}
	if k.answer = k.rules.Refuse(d, k.answer[:0]); len(k.answer) == 0 {
		return
	}
	to := d.Src.Addr()
	if to.IsLinkLocalUnicast() {
		to = to.WithZone(g.addr.Zone())
	}
	k.vec[0] = k.answer
	k.out[0] = udp.Datagrams{Dst: netip.AddrPortFrom(to, Port), Iov: k.vec[:]}
	g.mads.WriteBatch(k.out[:]) // not sent is as good as lost: the peer asks again
}

// expects reports whether the owner of a slot lives and is not connected; for
// none whether any is.
func (k *keeper) expects(slot int) bool {
	if slot >= 0 {
		return k.lock.owned(slot)
	}
	return k.awaited()
}
