// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// A REQ and a SIDR_REQ come in one packet, from an address that may be forged. Each is held in a
// table until its peer has shown that it sent it (probe.go): an unproven request costs nothing
// else, and lasts for seconds, even if it names longer time-outs. A proven one waits there until
// there is room for it. If it were dropped, it would come again after 4.3 s only.

// sender is the knowledge about the sender of a request.
type sender uint8

const (
	claimed  sender = iota // it has an address
	certain                // the address is its own; there may be no room for its request
	admitted               // the address is its own, and there is room
)

// held is a request whose peer has been asked whether it has sent it.
type held struct {
	path Path
	tid  uint64 // the probes': random, and the place in the table; 0 once they are answered
	at   monotime.Time
	mad  MAD

	ours, theirs uint32 // ids that the probes name
	asked        uint8  // times
	proven       bool   // and in its bucket's ready
}

// holding has held requests, in buckets by the addresses that they name. So those of
// one address are at most as many as a bucket has, and in a flood from one address
// others go on. In each the oldest gives way.
//
// All together take 6 MB. There is time for an answer, which comes within a round trip: 50,000
// packets/s from many addresses turn the whole table over in 320 ms.
type holding struct {
	seed    uint64
	buckets [heldBuckets]heldBucket
	again   monotime.Time // when to look for peers to be asked again
	ready   int           // in all buckets
	room    bool          // there may be room for one of them
}

type heldBucket struct {
	all  []held // a ring once it is full
	next int    // the oldest, then
	// ready has the transaction ids of proven requests that wait for room, in the order
	// of their proofs.
	ready []uint64
}

const (
	heldBuckets = 4
	heldOfOne   = 4096 // a program may connect that many queue pairs at once
	heldLife    = 5 * monotime.Second

	// A peer is asked again after a pause, as probes get lost, while there are few: in a
	// flood there is no time for it.
	heldPause = 200 * monotime.Millisecond
	heldAsks  = 3
	heldFew   = 1024
)

// hold keeps a request until its peer has shown that it exists, and there is room.
func (a *Agent) hold(now monotime.Time, path Path, mad *MAD, theirs uint32, from sender) {
	a.count[Held]++
	if a.holding == nil {
		a.holding = &holding{seed: a.Random(), again: monotime.Never}
	}
	h := held{path: path, at: now, mad: *mad, ours: a.newCommID(), theirs: theirs, asked: 1}
	if from == certain {
		a.prove(now, a.holding.add(a.newProbe(), h))
		return
	}
	a.holding.again = min(a.holding.again, now.Add(heldPause))
	a.challenge(a.holding.add(a.newProbe(), h))
}

// askAgain challenges once more the peers that have not answered.
func (a *Agent) askAgain(now monotime.Time) {
	t := a.holding
	if t == nil || now.Before(t.again) {
		return
	}
	t.again = monotime.Never
	var open []*held
	for i := range t.buckets {
		all := t.buckets[i].all
		for j := range all {
			if h := &all[j]; h.tid != 0 && !h.proven && h.asked < heldAsks &&
				now.Sub(h.at) <= heldLife {
				open = append(open, h)
			}
		}
	}
	for _, h := range open {
		if len(open) > heldFew {
			h.asked = heldAsks // a flood
			continue
		}
		if due := h.at.Add(heldPause * monotime.Duration(h.asked)); now.Before(due) {
			t.again = min(t.again, due)
			continue
		}
		h.asked++
		a.challenge(h)
		if h.asked < heldAsks {
			t.again = min(t.again, now.Add(heldPause))
		}
	}
}

// nextAsk returns when askAgain or enterReady is due.
func (t *holding) nextAsk() monotime.Time {
	switch {
	case t == nil:
		return monotime.Never
	case t.ready > 0 && t.room:
		return 0
	}
	return t.again
}

// prove has a request handled whose peer has shown that it sent it, or wait for room.
func (a *Agent) prove(now monotime.Time, h *held) {
	if h.proven {
		return
	}
	t := a.holding
	b := t.bucketOf(h.tid)
	why, fits := a.fits(h)
	if fits && len(b.ready) == 0 {
		a.enter(now, h)
		return
	}
	a.count[why]++
	if len(b.ready) < heldOfOne { // those that have given way included
		h.proven = true
		b.ready = append(b.ready, h.tid)
		t.ready++
	}
}

// enter handles a proven request, which leaves the table.
func (a *Agent) enter(now monotime.Time, h *held) {
	h.tid = 0
	a.handleRequest(now, h.path, h.mad[:], admitted)
}

// enterReady lets proven requests in for which there is room now, of each bucket in
// their order.
func (a *Agent) enterReady(now monotime.Time) {
	t := a.holding
	if t == nil || t.ready == 0 || !t.room {
		return
	}
	t.room = false
	for i := range t.buckets {
		b := &t.buckets[i]
		done := 0
		for _, tid := range b.ready {
			h := t.find(now, tid)
			if h != nil { // it has neither given way nor waited for too long
				if _, fits := a.fits(h); !fits {
					break
				}
				a.enter(now, h)
			}
			done++
		}
		b.ready = slices.Delete(b.ready, 0, done)
		t.ready -= done
	}
}

// madeRoom notes that a request has left its bounded set.
func (a *Agent) madeRoom() {
	if a.holding != nil {
		a.holding.room = true
	}
}

// fits reports whether there is room for a request. why is the counter of those that have to wait.
// One address has a quarter of the half-open connections at most.
func (a *Agent) fits(h *held) (why Counter, fits bool) {
	l := a.match(RouteOf(h.mad[:]).ServiceID, h.path.Local)
	switch {
	case l == nil: // which is refused
		return BacklogFull, true
	case l.waiting >= l.backlog:
		return BacklogFull, false
	}
	ofOne := a.halfOpenOf[plainAddr(h.path.Remote)]
	return ConnsFull, len(a.conns) < a.MaxConns && a.halfOpen < a.MaxHalfOpen &&
		ofOne < max(a.MaxHalfOpen/4, 1)
}

// add puts a request into the table, and returns it with its transaction id.
func (t *holding) add(random uint64, h held) *held {
	at := t.bucket(h.path.Remote)
	b := &t.buckets[at]
	i := b.next
	if len(b.all) < heldOfOne {
		i = len(b.all)
		b.all = append(b.all, held{})
	} else {
		b.next = (b.next + 1) % heldOfOne
	}
	h.tid = random - random%(heldBuckets*heldOfOne) + uint64(at*heldOfOne+i)
	b.all[i] = h
	return &b.all[i]
}

// find returns the request that probes with a transaction id were sent for, nil if it
// has given way or is too old.
func (t *holding) find(now monotime.Time, tid uint64) *held {
	if t == nil || tid == 0 {
		return nil
	}
	b := t.bucketOf(tid)
	i := int(tid % heldOfOne)
	if i >= len(b.all) || b.all[i].tid != tid || now.Sub(b.all[i].at) > heldLife {
		return nil
	}
	return &b.all[i]
}

// bucketOf returns the bucket that a transaction id is for.
func (t *holding) bucketOf(tid uint64) *heldBucket { return &t.buckets[tid/heldOfOne%heldBuckets] }

// bucket returns where requests of an address are. Nobody outside can tell whose are
// together.
func (t *holding) bucket(from netip.Addr) int {
	b := plainAddr(from).As16()
	const odd = 0x9e3779b97f4a7c15
	x := (t.seed ^ binary.NativeEndian.Uint64(b[:])) * odd
	x = (x ^ x>>32 ^ binary.NativeEndian.Uint64(b[8:])) * odd
	return int(x >> 32 % heldBuckets)
}

// handleRequest takes a REQ or SIDR_REQ again, from the start.
func (a *Agent) handleRequest(now monotime.Time, path Path, mad []byte, from sender) {
	h, data, _ := cm.ParseHeader(mad)
	if h.Attribute == cm.AttrREQ {
		m, _, _ := cm.ParseREQ(data)
		a.handleREQ(now, path, &h, &m, from)
		return
	}
	m, _, _ := cm.ParseSIDRREQ(data)
	a.handleSIDRREQ(now, path, h.TransactionID, &m, from)
}
