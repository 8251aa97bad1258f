package ibcm

import (
	"encoding/binary"
	"net/netip"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// held is a request whose peer has been asked for a sign of life, by a probe for a
// connection that neither side has.
type held struct {
	path Path
	tid  uint64 // the probe's: random, and the place in the table
	at   monotime.Time
	mad  MAD
}

// holding has held requests, in buckets by the addresses that they name. So those of
// one address are at most as many as a bucket has, and in a flood from one address
// others go on. In each the oldest gives way.
//
// All together take 700 kB. An answer comes within a round trip, for which there is
// time: 50,000 packets/s from many addresses turn the whole table over in 40 ms.
type holding struct {
	seed    uint64
	buckets [heldBuckets]heldBucket
}

type heldBucket struct {
	all  []held // a ring once it is full
	next int    // the oldest, then
}

const (
	heldBuckets = 8
	heldOfOne   = 256 // peers that connect all at once, from one address
	heldLife    = 5 * monotime.Second
)

// hold keeps a request until its peer has shown that it exists.
func (a *Agent) hold(now monotime.Time, path Path, mad *MAD, theirs uint32) {
	a.count[Held]++
	if a.holding == nil {
		a.holding = &holding{seed: a.Random()}
	}
	h := held{path: path, at: now, mad: *mad}
	h.tid = a.holding.add(a.newProbe(), h)
	// An id beside the peer's: it must not know the connection.
	a.sendProbe(path, h.tid, a.newCommID(), theirs^1)
}

// add puts a request into the table, and returns its transaction id.
func (t *holding) add(random uint64, h held) (tid uint64) {
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
	return h.tid
}

// take takes out the request that a probe was sent for.
func (t *holding) take(now monotime.Time, path Path, tid uint64) (held, bool) {
	if t == nil {
		return held{}, false
	}
	place := int(tid % (heldBuckets * heldOfOne))
	b := &t.buckets[place/heldOfOne]
	i := place % heldOfOne
	if i >= len(b.all) || b.all[i].tid != tid || b.all[i].path != path || now.Sub(b.all[i].at) > heldLife {
		return held{}, false
	}
	h := b.all[i]
	b.all[i].tid = 0 // used
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
