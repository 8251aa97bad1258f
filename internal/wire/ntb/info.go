// SPDX-License-Identifier: BSD-2-Clause

package ntb

// Magic opens an info page.
const Magic uint32 = 0x62746e76

// InfoBytes is the size of the info page.
const InfoBytes = 0x1000

// Words of the info page, by their offset. The peer of the window's owner
// writes them, each in one piece. All but Magic, Versions, Session, Echo and Wake are of the
// session.
const (
	OffMagic    = 0x00 // 4
	OffVersions = 0x04 // 4: Versions
	OffSession  = 0x08 // 8: the writer's session, a random number, not 0
	OffEcho     = 0x10 // 8: the session that the writer has seen of the owner; 0: none
	OffPing     = 0x18 // 4: counts on while the writer lives
	OffSignal   = 0x1c // 4: counts the batches written; the interrupt is this write
	OffAsleep   = 0x20 // 4: counts how often the writer went to sleep: wake it
	OffHello    = 0x24 // 2 × 4: HelloWord of odd and even phases
	// 4: the back end's: a wake-up of the writer by other means than this memory; 0: none
	OffWake = 0x2c
)

// Places of the bytes of a hello phase, for odd and even phases.
const (
	OffHelloData  = 0x100
	MaxHelloBytes = 0x100
)

// HelloWordAt returns where the word of a phase is.
func HelloWordAt(phase uint16) uint64 { return OffHello + 4*uint64((phase+1)&1) }

// HelloDataAt returns the place of a phase's bytes. Two places suffice: the writer of phase n has
// read phase n-1, which the peer wrote when it had read n-2.
func HelloDataAt(phase uint16) uint64 { return OffHelloData + MaxHelloBytes*uint64((phase+1)&1) }

// HelloWord says which phase is there and how many bytes it has.
type HelloWord uint32

// NewHelloWord joins a phase and its size.
func NewHelloWord(phase uint16, size int) HelloWord {
	return HelloWord(uint32(phase)<<16 | uint32(uint16(size)))
}

// Phase returns the phase; 0 is none.
func (w HelloWord) Phase() uint16 { return uint16(w >> 16) }

// Size returns the number of bytes, which may be more than there is room for.
func (w HelloWord) Size() int { return int(uint16(w)) }

// Versions are the versions that a node speaks, from and to.
type Versions uint32

// NewVersions joins the lowest and the highest version.
func NewVersions(lowest, highest uint16) Versions {
	return Versions(uint32(highest)<<16 | uint32(lowest))
}

// Agree returns the highest version that both speak.
func (v Versions) Agree(o Versions) (version uint16, ok bool) {
	low, high := max(uint16(v), uint16(o)), min(uint16(v>>16), uint16(o>>16))
	return high, low <= high && high > 0
}
