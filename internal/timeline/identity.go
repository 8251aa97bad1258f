// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"hash/maphash"

	"verbena/internal/wire/pcap"
)

// identBytes are the bytes of a datagram that identify it: all headers, and some payload.
const identBytes = 48

// reservedByte is the place in a BTH of the bits that networks may change.
//
// Spec: IBTA vol. 1, 7.8.1, the ICRC: Resv8a has FECN and BECN.
const reservedByte = 4

// dataSegment says that the identity is of a TCP segment with payload: behind it is its length.
const dataSegment = 1 << 31

// identify notes the identity of the current packet, which both ends' captures have. Packets that
// are sent again may share it.
func (b *builder) identify(d *pcap.Datagram, varying bool) {
	if !b.merging {
		return
	}
	var head [identBytes]byte
	n := copy(head[:], d.Payload)
	if varying {
		head[reservedByte] = 0
	}
	b.ident, b.direction = maphash.Bytes(b.seed, head[:n]), d.Direction
}

// identifySegment identifies a TCP segment by its last byte, as interfaces cut and join segments:
// the offset behind it, dataSegment and the length. One without payload has its acknowledgement.
func (b *builder) identifySegment(s *pcap.Segment) {
	if !b.merging {
		return
	}
	b.direction = s.Direction
	if n := uint32(len(s.Payload) + s.Missing); n > 0 {
		b.ident = uint64(s.Seq+n)<<32 | dataSegment | uint64(n)
		return
	}
	b.ident = uint64(s.Ack) << 32
	for i, set := range [...]bool{s.SYN, s.FIN, s.RST, s.HasAck} {
		if set {
			b.ident |= 1 << i
		}
	}
}

// mark is a packet that one of two captures has.
type mark struct {
	ident uint64
	row   uint32
	later bool // of the later file
}

// sameEnd returns the identity without the length of a TCP segment.
func (m *mark) sameEnd(streams bool) uint64 {
	if streams && m.ident&dataSegment != 0 {
		return m.ident &^ (dataSegment - 1)
	}
	return m.ident
}

// groups calls f for the marks of each identity: those of one file, and of the other. Marks are in
// the order of identities, files and rows.
func groups(marks []mark, streams bool, f func(earlier, later []mark)) {
	for len(marks) > 0 {
		id, n, split := marks[0].sameEnd(streams), 0, 0
		for ; n < len(marks) && marks[n].sameEnd(streams) == id; n++ {
			if !marks[n].later {
				split = n + 1
			}
		}
		f(marks[:split], marks[split:n])
		marks = marks[n:]
	}
}

// pairUp calls join for the packets of one identity that were sent and arrived, both in their
// order. If fewer arrived than were sent, each is the latest sent before: the others are lost. If
// more arrived, the first before which one was sent is its arrival: the network has copied it, or
// the sender's capture begins later.
func pairUp(sends, arrivals []mark, at []int64, join func(s, r uint32)) {
	switch m, k := len(sends), len(arrivals); {
	case m == k:
		for i := range sends {
			join(sends[i].row, arrivals[i].row)
		}
	case m > k:
		for m--; k > 0; k-- {
			for m >= 0 && at[sends[m].row] > at[arrivals[k-1].row] {
				m--
			}
			if m < 0 {
				return
			}
			join(sends[m].row, arrivals[k-1].row)
			m--
		}
	default:
		for i, j := 0, 0; i < m && j < k; j++ {
			if at[sends[i].row] <= at[arrivals[j].row] {
				join(sends[i].row, arrivals[j].row)
				i++
			}
		}
	}
}
