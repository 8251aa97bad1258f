// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"net/netip"
	"slices"
	"time"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
)

// Bounds of the bytes that Streams keeps.
const (
	maxConnections = 1024
	// maxAhead bounds the bytes that wait for earlier ones; beyond it the earlier
	// ones count as not captured.
	maxAhead = 256 << 10
)

// Streams finds iWARP in the TCP segments of a capture: it puts the streams of
// connections that begin with an MPA Request together again and says where
// their frames end. The zero value is ready.
type Streams struct {
	conns map[flow]*half
	order []flow // of connections, the oldest first
}

// flow is one direction of a connection.
type flow struct{ src, dst netip.AddrPort }

func (f flow) back() flow { return flow{f.dst, f.src} }

// half is one direction: its sender's bytes.
type half struct {
	other *half

	synced bool   // next holds
	next   uint32 // sequence number of the next byte
	ahead  []arrival
	held   int // bytes of ahead

	setUp    bool   // FPDUs follow
	frame    []byte // the set-up frame being gathered
	sent     iwarp.MPAFrame
	deframer mpa.Deframer
	ulpdu    []byte // the beginning of the one being gathered
	length   int
	lost     bool // bytes before were not captured
	dead     bool // no FPDUs any more
}

// arrival is a segment that came before its turn, with the frame it was in.
type arrival struct {
	seq  uint32
	data []byte
	at   Frame
}

// Frame is a place in a capture.
type Frame struct {
	Number   int
	Time     time.Time
	Src, Dst netip.AddrPort
	Len      int // bytes on the link
}

// An Item is one MPA frame or FPDU of a stream.
type Item struct {
	Frame       // in which its last byte came
	SetUp       *iwarp.MPAFrame
	ULPDU       []byte // of an FPDU: at least its headers
	Length      int    // of the ULPDU
	CRC         bool   // CRCs are in use
	BadCRC      bool   // … and this one is wrong
	BadMarker   bool   // a marker is wrong: nothing more of this direction follows
	NotCaptured bool   // bytes before it were not captured
}

// headBytes is the part of an ULPDU that is kept: the longest headers there are.
const headBytes = iwarp.UntaggedBytes + iwarp.AtomicRequestBytes + iwarp.MaxTermBytes

// Has reports whether Streams knows the connection of a segment.
func (s *Streams) Has(p *pcap.Segment) bool { return s.conns[flow{p.Src, p.Dst}] != nil }

// Segment takes the next segment of a capture and calls emit for each item that it completes. An
// item and its bytes are valid until emit returns.
func (s *Streams) Segment(number int, p *pcap.Segment, emit func(*Item)) {
	f := flow{p.Src, p.Dst}
	if p.SYN {
		s.forget(f)
	}
	h := s.conns[f]
	if h == nil {
		if !beginsRequest(p.Payload) {
			return
		}
		h = s.add(f)
		h.next, h.synced = p.Seq, true
	}
	if !h.synced && len(p.Payload) > 0 {
		h.next, h.synced = p.Seq, true
	}
	if p.Truncated {
		h.dead = true
	}
	at := Frame{Number: number, Time: p.Time, Src: p.Src, Dst: p.Dst, Len: p.FrameLen}
	h.arrive(p.Seq, p.Payload, at, emit)
	if p.RST {
		h.flush(emit)
	}
}

// Flush returns the contents of the waiting segments, at the end of a capture.
func (s *Streams) Flush(emit func(*Item)) {
	for _, f := range s.order {
		for _, f := range []flow{f, f.back()} {
			s.conns[f].flush(emit)
		}
	}
}

// beginsRequest reports whether a segment begins a stream of MPA.
func beginsRequest(b []byte) bool {
	n, ok := iwarp.MPAFrameLen(b)
	return ok && n > 0 && len(b) >= iwarp.MPAFrameBytes && b[9] == 'q'
}

func (s *Streams) add(f flow) *half {
	if s.conns == nil {
		s.conns = map[flow]*half{}
	}
	if len(s.order) == maxConnections {
		s.forget(s.order[0])
	}
	a, b := &half{}, &half{}
	a.other, b.other = b, a
	s.conns[f], s.conns[f.back()] = a, b
	s.order = append(s.order, f)
	return a
}

func (s *Streams) forget(f flow) {
	if s.conns[f] == nil {
		return
	}
	delete(s.conns, f)
	delete(s.conns, f.back())
	s.order = slices.DeleteFunc(s.order, func(o flow) bool { return o == f || o == f.back() })
}

// arrive puts a segment in its place, and those that wait for it.
func (h *half) arrive(seq uint32, data []byte, at Frame, emit func(*Item)) {
	if len(data) == 0 || h.dead {
		return
	}
	if int32(seq-h.next) > 0 {
		h.ahead = append(h.ahead, arrival{seq, slices.Clone(data), at})
		if h.held += len(data); h.held > maxAhead {
			h.flush(emit)
		}
		return
	}
	h.follow(seq, data, at, emit)
	for !h.dead {
		i := slices.IndexFunc(h.ahead, func(a arrival) bool { return int32(a.seq-h.next) <= 0 })
		if i < 0 {
			return
		}
		a := h.ahead[i]
		h.ahead = slices.Delete(h.ahead, i, i+1)
		h.held -= len(a.data)
		h.follow(a.seq, a.data, a.at, emit)
	}
}

// follow takes the new bytes of a segment that does not begin beyond next.
func (h *half) follow(seq uint32, data []byte, at Frame, emit func(*Item)) {
	if known := int(int32(h.next - seq)); known < len(data) {
		data = data[known:]
		h.next += uint32(len(data))
		h.take(data, at, emit)
	}
}

// flush takes the bytes before the waiting segments for lost. As FPDUs mostly begin with segments,
// the next is taken to do so: the marks of a wrong guess are plain to see.
func (h *half) flush(emit func(*Item)) {
	for len(h.ahead) > 0 && !h.dead {
		first := slices.MinFunc(h.ahead, func(a, b arrival) int {
			return int(int32(a.seq - b.seq))
		})
		if h.deframer.Markers || !h.setUp {
			h.dead = true // where the markers are nobody knows
			return
		}
		h.next, h.lost = first.seq, true
		h.deframer = mpa.Deframer{CRC: h.deframer.CRC}
		ahead := h.ahead
		h.ahead, h.held = nil, 0
		slices.SortStableFunc(ahead, func(a, b arrival) int { return int(int32(a.seq - b.seq)) })
		for _, a := range ahead {
			h.arrive(a.seq, a.data, a.at, emit)
		}
	}
}

// take looks at the next bytes of the stream.
func (h *half) take(b []byte, at Frame, emit func(*Item)) {
	if !h.setUp {
		if b = h.takeFrame(b, at, emit); len(b) == 0 {
			return
		}
	}
	for !h.dead {
		ev, data, rest := h.deframer.Next(b)
		b = rest
		item := Item{Frame: at, CRC: h.deframer.CRC, Length: h.length, ULPDU: h.ulpdu,
			NotCaptured: h.lost}
		switch ev {
		case mpa.NeedMore:
			return
		case mpa.Started:
			h.ulpdu, h.length = h.ulpdu[:0], h.deframer.Length()
			continue
		case mpa.Data:
			h.ulpdu = append(h.ulpdu, data[:min(len(data), headBytes-len(h.ulpdu))]...)
			continue
		case mpa.BadCRC:
			item.BadCRC, h.dead = true, true
		case mpa.BadMarker:
			item.BadMarker, h.dead = true, true
		}
		h.lost = false
		emit(&item)
	}
}

// takeFrame gathers the set-up frame and returns the bytes behind it.
func (h *half) takeFrame(b []byte, at Frame, emit func(*Item)) (rest []byte) {
	for {
		n, ok := iwarp.MPAFrameLen(h.frame)
		if !ok {
			h.dead = true
			return nil
		}
		if k := n - len(h.frame); k > 0 {
			if len(b) == 0 {
				return nil
			}
			k = min(k, len(b))
			h.frame, b = append(h.frame, b[:k]...), b[k:]
			continue
		}
		break
	}
	f, _, _ := iwarp.ParseMPAFrame(h.frame)
	h.sent, h.setUp = f, true
	// Either side may ask for CRCs, in both directions, and for markers in the bytes that it
	// receives. No FPDU comes before both sides' wishes are known.
	h.deframer.CRC = f.CRC || h.other.sent.CRC
	h.other.deframer.CRC = h.deframer.CRC
	h.other.deframer.Markers = f.Markers
	emit(&Item{Frame: at, SetUp: &f})
	return b
}
