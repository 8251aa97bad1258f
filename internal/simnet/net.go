// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"

	"verbena/internal/monotime"
)

// Datagram is one packet on the network.
type Datagram struct {
	Src, Dst netip.Addr
	SrcPort  uint16
	DstPort  uint16 // 0 where hosts do not look at it
	ID       uint16 // IPv4 identification, which the ICRC covers
	TOS      uint8  // IPv4 TOS; the low two bits are ECN
	Payload  []byte // the UDP payload
	Bytes    int    // on the line; 0 is those of Payload in a frame over IPv4
	Damaged  bool   // its bytes are not those sent; the receiver must not look
	Drops    *int   // counts the datagram if the network drops it; may be nil
}

// Net is a network and its clock.
type Net struct {
	Faults  Faults
	Rand    *rand.Rand
	Dropped func(*Datagram) // called for each datagram that a link drops or loses; may be nil

	now    monotime.Time
	seq    uint64
	events events
	hosts  map[netip.Addr]func(*Datagram)
	cut    map[[2]netip.Addr]bool
	routes map[[2]netip.Addr][]*Link
	layout topology
	hash   hash.Hash64
	Count  Counts
}

// Counts count the events of the network.
type Counts struct {
	Sent, Delivered, Lost, Repeated, Delayed, Flipped, Cut, Parted int
}

// New returns a network without hosts or faults.
func New(seed uint64) *Net {
	return &Net{
		Rand:   rand.New(rand.NewPCG(seed, 0x5eed)),
		hosts:  map[netip.Addr]func(*Datagram){},
		cut:    map[[2]netip.Addr]bool{},
		routes: map[[2]netip.Addr][]*Link{},
		hash:   fnv.New64a(),
	}
}

// Attach has everything sent to addr delivered to f.
func (n *Net) Attach(addr netip.Addr, f func(*Datagram)) { n.hosts[addr] = f }

// Part separates two hosts, or joins them again.
func (n *Net) Part(a, b netip.Addr, apart bool) {
	n.cut[[2]netip.Addr{a, b}], n.cut[[2]netip.Addr{b, a}] = apart, apart
}

// Heal takes all faults away. Datagrams under way stay as they are.
func (n *Net) Heal() {
	n.Faults = Faults{Delay: n.Faults.Delay}
	clear(n.cut)
}

// Now returns the time.
func (n *Net) Now() monotime.Time { return n.now }

// At runs f at a time, or now if that is past.
func (n *Net) At(t monotime.Time, f func()) {
	n.seq++
	n.events.push(event{max(t, n.now), n.seq, f})
}

// After runs f in a while.
func (n *Net) After(d monotime.Duration, f func()) { n.At(n.now.Add(d), f) }

// Step runs the next event and reports false if there is none until end.
func (n *Net) Step(end monotime.Time) bool {
	if len(n.events) == 0 || n.events[0].at > end {
		n.now = max(n.now, min(end, monotime.Never-1))
		return false
	}
	e := n.events.pop()
	n.now = e.at
	e.run()
	return true
}

// Next returns the time of the next event, or Never.
func (n *Net) Next() monotime.Time {
	if len(n.events) == 0 {
		return monotime.Never
	}
	return n.events[0].at
}

// Note adds something that happened to the trace hash.
func (n *Net) Note(v ...uint64) {
	var b [8]byte
	for _, v := range v {
		binary.LittleEndian.PutUint64(b[:], v)
		n.hash.Write(b[:])
	}
}

// Hash returns the hash of all that happened so far.
func (n *Net) Hash() uint64 { return n.hash.Sum64() }
