// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"encoding/binary"
	"hash/maphash"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// twice finds out whether a capture has each packet twice: when it left, and when it arrived. The
// capture of a process that is both ends of its connections is so, and that of a bridge.
//
// A capture that names directions tells them apart: a packet that came in is the arrival of an
// equal one that went out before, and each that went out arrives once. One that names none has each
// packet twice if the first comes again before any other way, and sooner than a sender would repeat
// it. From then on a packet that equals an earlier one is its arrival, unless a copy has come.
type twice struct {
	seed    maphash.Seed
	decided bool
	both    bool
	first   uint64
	at      int64
	src     pcapEnd
	left    map[uint64]int // packets whose arrival has not come
	order   []uint64       // of left, the oldest first
}

// pcapEnd tells the directions of packets apart.
type pcapEnd struct {
	addr [16]byte
	qpn  uint32
}

const (
	// soonest and soonestCM are less than the time after which a sender repeats a packet by itself,
	// in nanoseconds, and a connection manager its message.
	soonest   = 200_000
	soonestCM = 50_000_000
	// maxOnTheWay bounds the packets that have left and not arrived.
	maxOnTheWay = 1 << 12
)

// arrives reports whether a datagram is the arrival of one that the capture has already.
func (w *twice) arrives(d *pcap.Datagram, at int64) bool {
	told := d.Direction != pcap.DirectionUnknown
	if !told && w.decided && !w.both {
		return false
	}
	if w.left == nil {
		w.seed, w.left = maphash.MakeSeed(), map[uint64]int{}
	}
	print := w.print(d)
	if !told && !w.decided {
		if w.first == 0 && len(w.order) == 0 {
			w.first, w.at, w.src = print, at, endOfPacket(d)
		} else if print == w.first {
			w.both, w.decided = at-w.at < w.patience(), true
		} else {
			w.decided = endOfPacket(d) != w.src || w.src.qpn == qp1 || at-w.at >= w.patience()
		}
	}
	if w.left[print] > 0 && (d.Direction == pcap.Inbound || !told && w.both) {
		if w.left[print]--; w.left[print] == 0 {
			delete(w.left, print)
		}
		return true
	}
	if d.Direction == pcap.Inbound {
		return false
	}
	if len(w.order) == maxOnTheWay {
		if n := w.left[w.order[0]]; n > 1 {
			w.left[w.order[0]]--
		} else {
			delete(w.left, w.order[0])
		}
		w.order = w.order[1:]
	}
	w.left[print]++
	w.order = append(w.order, print)
	return false
}

func (w *twice) patience() int64 {
	if w.src.qpn == qp1 {
		return soonestCM
	}
	return soonest
}

func (w *twice) print(d *pcap.Datagram) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	var b [8]byte
	binary.BigEndian.PutUint16(b[:], d.IPID)
	binary.BigEndian.PutUint16(b[2:], d.Src.Port())
	binary.BigEndian.PutUint16(b[4:], d.Dst.Port())
	h.Write(b[:])
	from := d.Src.Addr().As16()
	h.Write(from[:])
	h.Write(d.Payload)
	return h.Sum64()
}

func endOfPacket(d *pcap.Datagram) pcapEnd {
	h, _, _ := roce.ParseBTH(d.Payload)
	return pcapEnd{d.Src.Addr().As16(), uint32(h.DestQP)}
}

// again reports whether a TCP segment with payload is the arrival of bytes that the capture has
// already. Segments differ between the ends; their bytes do not. With directions known it reports
// whether the capture's host receives what it sends itself.
func (w *twice) again(f *flow, s *pcap.Segment, at int64) bool {
	if s.Direction != pcap.DirectionUnknown {
		f.leaves = f.leaves || s.Direction == pcap.Outbound
		return f.leaves && s.Direction == pcap.Inbound
	}
	from, n := f.offset(s.Seq), len(s.Payload)+s.Missing
	if !w.decided && n > 0 {
		if !f.space.synced && (f.peer == nil || !f.peer.space.synced) {
			w.at = at
		} else {
			w.both = f.space.synced && from == 0 && from < f.space.next && at-w.at < soonestCM
			w.decided = true
		}
	}
	return w.both && n > 0 && f.space.synced && from+int64(n) <= f.space.next
}
