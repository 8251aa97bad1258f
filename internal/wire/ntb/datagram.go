// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// A DatagramRing is a place in a window for datagrams of one kind. It has two words, each in a
// cache line of its own, and Cap bytes, a power of two. The peer fills these from their start on
// and again from there. Positions are Indices that count bytes.
type DatagramRing struct {
	At  uint64
	Cap uint32
	Max uint32 // bytes of the longest datagram
}

// Parts of a DatagramRing.
const (
	datagramWordsBytes = 128

	MaxDatagramRing = 1 << 24 // bounds Cap
	DatagramGrain   = 8       // records are multiples of it
)

// PostedAt returns the offset of the word that says how far the peer has filled the ring.
func (r *DatagramRing) PostedAt() uint64 { return r.At }

// TakenAt returns the offset of the word that says how far the peer has emptied the ring
// in its own window.
func (r *DatagramRing) TakenAt() uint64 { return r.At + datagramWordsBytes/2 }

// BytesAt returns the offset of the bytes.
func (r *DatagramRing) BytesAt() uint64 { return r.At + datagramWordsBytes }

// Size returns the number of bytes of a window that the ring takes, with its words.
func (r *DatagramRing) Size() uint64 { return datagramWordsBytes + uint64(r.Cap) }

// Valid reports whether the ring can be: the longest datagram fits twice, so that
// it will fit when there is a credit of half the ring.
func (r *DatagramRing) Valid() bool {
	return ValidCap(r.Cap, MaxDatagramRing) && r.Cap >= 2*DatagramGrain && r.At%8 == 0 &&
		r.Max > 0 && r.Max <= r.Cap && RecordBytes(r.Max) <= r.Cap/2
}

func parseDatagramRing(b []byte) DatagramRing {
	return DatagramRing{At: binary.LittleEndian.Uint64(b), Cap: binary.LittleEndian.Uint32(b[8:]),
		Max: binary.LittleEndian.Uint32(b[12:])}
}

func (r DatagramRing) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.At)
	b = binary.LittleEndian.AppendUint32(b, r.Cap)
	return binary.LittleEndian.AppendUint32(b, r.Max)
}

// MaxFrameBytes is the length of the longest Ethernet frame: a header, a VLAN tag
// and an IP packet with room to spare.
const MaxFrameBytes = 65550

// RecordHeaderBytes is the size of a RecordHeader.
const RecordHeaderBytes = 8

// A RecordHeader stands before each datagram in a ring. Where it stands is a
// multiple of DatagramGrain, so that it lies in one piece.
type RecordHeader struct {
	Bytes uint32
	Index Index // the record's own position
}

// RecordBytes returns how much of a ring a datagram of n bytes takes.
func RecordBytes(n uint32) uint32 {
	return RecordHeaderBytes + (n+DatagramGrain-1)&^(DatagramGrain-1)
}

// ParseRecordHeader reads a RecordHeader.
func ParseRecordHeader(b []byte) (h RecordHeader, rest []byte, ok bool) {
	if len(b) < RecordHeaderBytes {
		return RecordHeader{}, b, false
	}
	return RecordHeader{Bytes: binary.LittleEndian.Uint32(b),
		Index: Index(binary.LittleEndian.Uint32(b[4:]))}, b[RecordHeaderBytes:], true
}

// Append appends the bytes of h to b.
func (h RecordHeader) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.Bytes)
	return binary.LittleEndian.AppendUint32(b, uint32(h.Index))
}
