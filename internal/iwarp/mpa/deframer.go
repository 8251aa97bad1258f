// SPDX-License-Identifier: BSD-2-Clause

package mpa

import (
	"verbena/internal/mem"
	wire "verbena/internal/wire/iwarp"
)

// Event is the next item that a Deframer found.
type Event uint8

// Events.
const (
	NeedMore  Event = iota // all bytes are taken
	Started                // an FPDU began: Length holds
	Data                   // bytes of its ULPDU
	Ended                  // it is whole and, with CRCs, right
	BadCRC                 // it is whole and not right; the stream is dead
	BadMarker              // a marker and the lengths disagree; the stream is dead
)

// A Deframer finds the FPDUs in a stream, however it is cut into pieces. It
// keeps no payload: it says which bytes are whose.
//
// Spec: RFC 5044, 4 (FPDU) and 6 (receiving).
type Deframer struct {
	// immutable once the stream flows
	CRC     bool // CRCs are checked
	Markers bool // the stream has markers

	pos    uint64 // bytes taken
	phase  phase
	start  uint64 // pos of the FPDU's length
	n      int    // ULPDU length
	left   int    // bytes of the phase to come
	sum    uint32
	unsure bool    // not all of the FPDU is in sum: it was placed in memory that has gone
	marked bool    // the FPDU to come began with a marker, which is in sum
	field  [4]byte // the marker, length or CRC being gathered
	have   int
}

type phase uint8

const (
	inLength phase = iota
	inULPDU
	inPad
	inCRC
	dead
)

// Length returns the ULPDU length of the FPDU that Started announced.
func (d *Deframer) Length() int { return d.n }

// Between reports whether the stream may end here: no FPDU has begun.
func (d *Deframer) Between() bool {
	return d.phase == inLength && d.have == 0 && !d.marked
}

// Next takes bytes from the front of b up to the next event. data are those of the ULPDU; rest are
// the bytes after them. After NeedMore rest is empty.
func (d *Deframer) Next(b []byte) (ev Event, data, rest []byte) {
	for len(b) > 0 && d.phase != dead {
		if d.markerDue() {
			if b = d.gather(b, wire.MarkerBytes); d.have < wire.MarkerBytes {
				break
			}
			if !d.endMarker() {
				d.phase = dead
				return BadMarker, nil, b
			}
			continue
		}
		switch d.phase {
		case inLength:
			if b = d.gather(b, wire.LengthBytes); d.have < wire.LengthBytes {
				return NeedMore, nil, nil
			}
			d.beginULPDU()
			return Started, nil, b
		case inULPDU:
			k := min(len(b), d.Run())
			data, rest = b[:k:k], b[k:]
			if d.CRC {
				d.sum = wire.UpdateCRC(d.sum, data)
			}
			d.advance(k)
			return Data, data, rest
		case inPad:
			k := min(len(b), d.run())
			if d.CRC {
				d.sum = wire.UpdateCRC(d.sum, b[:k])
			}
			d.advance(k)
			b = b[k:]
		case inCRC:
			if b = d.gather(b, wire.CRCBytes); d.have < wire.CRCBytes {
				return NeedMore, nil, nil
			}
			return d.end(), nil, b
		}
	}
	return NeedMore, nil, nil
}

// Run returns how many bytes of the ULPDU come next without anything between:
// they may be read straight to where they belong, and then Placed.
func (d *Deframer) Run() int {
	if d.phase != inULPDU || d.markerDue() {
		return 0
	}
	return d.run()
}

// Placed notes that n bytes of the run were read into the pieces of memory at the front of where.
// It reports false if that memory is not mapped any more. The caller, which refuses such a segment,
// is notified of the FPDU's end, even with a bad CRC.
func (d *Deframer) Placed(where [][]byte, n int) (ok bool) {
	ok = true
	for left, i := n, 0; d.CRC && left > 0; i++ {
		p := where[i][:min(left, len(where[i]))]
		var good bool
		d.sum, good = mem.Sum(d.sum, p, wire.UpdateCRC)
		ok = ok && good
		left -= len(p)
	}
	d.unsure = d.unsure || !ok
	d.advance(n)
	return ok
}

// markerDue reports whether a marker is next.
func (d *Deframer) markerDue() bool { return d.Markers && d.pos%wire.MarkerInterval == 0 }

// run returns how many bytes of the phase come before the next marker.
func (d *Deframer) run() int {
	if d.Markers {
		return min(d.left, wire.MarkerInterval-int(d.pos%wire.MarkerInterval))
	}
	return d.left
}

// gather moves bytes from b to field until it has size of them.
func (d *Deframer) gather(b []byte, size int) (rest []byte) {
	k := copy(d.field[d.have:size], b)
	d.have += k
	return b[k:]
}

// endMarker checks a marker, which is part of the FPDU that it stands in or
// before.
func (d *Deframer) endMarker() bool {
	m, _, _ := wire.ParseMarker(d.field[:])
	back := uint64(0)
	if d.phase == inLength {
		d.marked, d.sum = true, 0
	} else {
		back = d.pos - d.start
	}
	d.sum = wire.UpdateCRC(d.sum, d.field[:])
	d.pos, d.have = d.pos+wire.MarkerBytes, 0
	return uint64(m.FPDUPtr) == back
}

func (d *Deframer) beginULPDU() {
	if !d.marked {
		d.sum = 0
	}
	d.marked, d.unsure, d.start = false, false, d.pos
	d.n, _, _ = wire.ParseLength(d.field[:])
	d.sum = wire.UpdateCRC(d.sum, d.field[:wire.LengthBytes])
	d.pos, d.have = d.pos+wire.LengthBytes, 0
	d.phase, d.left = inULPDU, d.n
	d.advance(0)
}

// advance takes n bytes of the phase, and goes to the next one behind its last.
func (d *Deframer) advance(n int) {
	d.pos, d.left = d.pos+uint64(n), d.left-n
	if d.left == 0 && d.phase == inULPDU {
		d.phase, d.left = inPad, wire.PadBytes(d.n)
	}
	if d.left == 0 && d.phase == inPad {
		d.phase = inCRC
	}
}

// end judges the CRC.
func (d *Deframer) end() Event {
	sum, _, _ := wire.ParseCRC(d.field[:])
	d.pos, d.have = d.pos+wire.CRCBytes, 0
	if d.CRC && sum != d.sum && !d.unsure {
		d.phase = dead
		return BadCRC
	}
	d.phase = inLength
	return Ended
}
