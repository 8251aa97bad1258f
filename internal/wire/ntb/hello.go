// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// Phases of the hello. Both ends send each; an end that has read one sends the next. The phases of
// the original begin with the versions, which the info page has here.
const (
	PhaseResources uint16 = 1 + iota // Resources
	PhasePrepare                     // Prepare
	PhaseReady                       // nothing: I have read your Prepare
)

// HelloMagic starts the bytes of a phase; the phase is added to it.
const HelloMagic uint32 = 0x68746e00

// ResourcesBytes is the size of Resources.
const ResourcesBytes = 96

// Resources describe a node's layout in its window, and the length of its command ring. The peer is
// to make room for that ring.
type Resources struct {
	WindowBytes uint64
	BellsAt     uint64 // virtual doorbells, 4 bytes each
	Bells       uint32
	CommandCap  uint32 // commands under way, a power of two
	ArenaAt     uint64 // the peer's to use as it likes
	ArenaBytes  uint64
	ResponsesAt uint64 // CommandCap responses
	DoneAt      uint64 // 4: index behind the last response
	MADs        DatagramRing
	Frames      DatagramRing // of Ethernet
}

// ParseResources reads Resources.
func ParseResources(b []byte) (r Resources, rest []byte, ok bool) {
	if len(b) < ResourcesBytes ||
		binary.LittleEndian.Uint32(b) != HelloMagic+uint32(PhaseResources) {
		return Resources{}, b, false
	}
	return Resources{
		// magic (32) reserved (32)
		WindowBytes: binary.LittleEndian.Uint64(b[8:]),
		BellsAt:     binary.LittleEndian.Uint64(b[16:]),
		Bells:       binary.LittleEndian.Uint32(b[24:]),
		CommandCap:  binary.LittleEndian.Uint32(b[28:]),
		ArenaAt:     binary.LittleEndian.Uint64(b[32:]),
		ArenaBytes:  binary.LittleEndian.Uint64(b[40:]),
		ResponsesAt: binary.LittleEndian.Uint64(b[48:]),
		DoneAt:      binary.LittleEndian.Uint64(b[56:]),
		MADs:        parseDatagramRing(b[64:]),
		Frames:      parseDatagramRing(b[80:]),
	}, b[ResourcesBytes:], true
}

// Append appends the bytes of r to b.
func (r Resources) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, HelloMagic+uint32(PhaseResources))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, r.WindowBytes)
	b = binary.LittleEndian.AppendUint64(b, r.BellsAt)
	b = binary.LittleEndian.AppendUint32(b, r.Bells)
	b = binary.LittleEndian.AppendUint32(b, r.CommandCap)
	b = binary.LittleEndian.AppendUint64(b, r.ArenaAt)
	b = binary.LittleEndian.AppendUint64(b, r.ArenaBytes)
	b = binary.LittleEndian.AppendUint64(b, r.ResponsesAt)
	b = binary.LittleEndian.AppendUint64(b, r.DoneAt)
	return r.Frames.append(r.MADs.append(b))
}

// PrepareBytes is the size of Prepare.
const PrepareBytes = 24

// Prepare names the place where the peer is to write its commands.
type Prepare struct {
	CommandsAt uint64 // as many as the peer's CommandCap
	PostedAt   uint64 // 4: index behind the last command
}

// ParsePrepare reads Prepare.
func ParsePrepare(b []byte) (p Prepare, rest []byte, ok bool) {
	if len(b) < PrepareBytes || binary.LittleEndian.Uint32(b) != HelloMagic+uint32(PhasePrepare) {
		return Prepare{}, b, false
	}
	return Prepare{
		// magic (32) reserved (32)
		CommandsAt: binary.LittleEndian.Uint64(b[8:]),
		PostedAt:   binary.LittleEndian.Uint64(b[16:]),
	}, b[PrepareBytes:], true
}

// Append appends the bytes of p to b.
func (p Prepare) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, HelloMagic+uint32(PhasePrepare))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, p.CommandsAt)
	return binary.LittleEndian.AppendUint64(b, p.PostedAt)
}

// Ready is the bytes of the last phase.
type Ready struct{}

// ReadyBytes is the size of Ready.
const ReadyBytes = 8

// ParseReady reads Ready.
func ParseReady(b []byte) (r Ready, rest []byte, ok bool) {
	if len(b) < ReadyBytes || binary.LittleEndian.Uint32(b) != HelloMagic+uint32(PhaseReady) {
		return Ready{}, b, false
	}
	return Ready{}, b[ReadyBytes:], true
}

// Append appends the bytes of r to b.
func (Ready) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, HelloMagic+uint32(PhaseReady))
	return binary.LittleEndian.AppendUint32(b, 0)
}
