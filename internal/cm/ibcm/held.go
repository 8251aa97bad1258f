// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"encoding/binary"
	"net/netip"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// A REQ and a SIDR_REQ come in one packet, from an address that may be forged. Each is
// held in a table until its peer has shown that it sent it (probe.go): an unproven
// request costs nothing else, and lasts for seconds, whatever time-outs it names.

// held is a request whose peer has been asked whether it has sent it.
type held struct {
	path Path
	tid  uint64 // the probes': random, and the place in the table; 0 once they are answered
	at   monotime.Time
	mad  MAD

	ours, theirs uint32 // ids that the probes name
	asked        uint8  // times
}

// holding has held requests, in buckets by the addresses that they name. So those of
// one address are at most as many as a bucket has, and in a flood from one address
// others go on. In each the oldest gives way.
//
// All together take 3 MB. An answer comes within a round trip, for which there is
// time: 50,000 packets/s from many addresses turn the whole table over in 160 ms.
type holding struct {
	seed    uint64
	buckets [heldBuckets]heldBucket
	again   monotime.Time // when to look for peers to be asked again
}

type heldBucket struct {
	all  []held // a ring once it is full
	next int    // the oldest, then
}

const (
	heldBuckets = 8
	heldOfOne   = 1024 // as many as a backlog: one address may ask for all of it at once
	heldLife    = 5 * monotime.Second

	// A peer is asked again after a pause, as probes get lost, while there are few: in a
	// flood there is no time for it.
	heldPause = 200 * monotime.Millisecond
	heldAsks  = 3
	heldFew   = 1024
)

// hold keeps a request until its peer has shown that it exists.
func (a *Agent) hold(now monotime.Time, path Path, mad *MAD, theirs uint32) {
	a.count[Held]++
	if a.holding == nil {
		a.holding = &holding{seed: a.Random(), again: monotime.Never}
	}
	h := held{path: path, at: now, mad: *mad, ours: a.newCommID(), theirs: theirs, asked: 1}
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
			if h := &all[j]; h.tid != 0 && h.asked < heldAsks && now.Sub(h.at) <= heldLife {
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

// nextAsk returns when askAgain is due.
func (t *holding) nextAsk() monotime.Time {
	if t == nil {
		return monotime.Never
	}
	return t.again
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

// take takes out the request that a probe was sent for.
func (t *holding) take(now monotime.Time, path Path, tid uint64) (held, bool) {
	if t == nil {
		return held{}, false
	}
	place := int(tid % (heldBuckets * heldOfOne))
	b := &t.buckets[place/heldOfOne]
	i := place % heldOfOne
	if i >= len(b.all) || tid == 0 || b.all[i].tid != tid || b.all[i].path != path || now.Sub(b.all[i].at) > heldLife {
		return held{}, false
	}
	h := b.all[i]
	b.all[i].tid = 0
	return h, true
}

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
func (a *Agent) handleRequest(now monotime.Time, path Path, mad []byte, proven bool) {
	h, data, _ := cm.ParseHeader(mad)
	if h.Attribute == cm.AttrREQ {
		m, _, _ := cm.ParseREQ(data)
		a.handleREQ(now, path, h.TransactionID, &m, proven)
		return
	}
	m, _, _ := cm.ParseSIDRREQ(data)
	a.handleSIDRREQ(now, path, h.TransactionID, &m, proven)
}
