package mem

// Keys: 24 bits of permuted slot number and 8 bits of tag.
const (
	slotBits = 24
	maxSlots = 1 << slotBits
	tagBits  = 8
	halfBits = slotBits / 2
	halfMask = 1<<halfBits - 1
)

// A permutation is a keyed bijection of the 24-bit numbers: a Feistel network
// of four rounds. It hides how many keys are out and which key follows which.
// It is no cipher; keys of 32 bits protect against accidents and guesses, the
// protection domain against the rest.
type permutation [4]uint32

func newPermutation(seed func() uint32) permutation {
	var p permutation
	for i := range p {
		p[i] = seed()
	}
	return p
}

// round mixes a half with a round key; any function will do for a Feistel
// network, this one is a multiply and a shift so that a look-up stays cheap.
func round(half, key uint32) uint32 {
	x := (half ^ key) * 0x9e3779b1
	return (x ^ x>>15) * 0x85ebca77 >> (32 - halfBits)
}

// hide maps a slot number to the upper 24 bits of its keys.
func (p *permutation) hide(slot uint32) uint32 {
	l, r := slot>>halfBits, slot&halfMask
	l ^= round(r, p[0])
	r ^= round(l, p[1])
	l ^= round(r, p[2])
	r ^= round(l, p[3])
	return l<<halfBits | r
}

// show is the inverse of hide.
func (p *permutation) show(hidden uint32) uint32 {
	l, r := hidden>>halfBits, hidden&halfMask
	r ^= round(l, p[3])
	l ^= round(r, p[2])
	r ^= round(l, p[1])
	l ^= round(r, p[0])
	return l<<halfBits | r
}

// key joins a slot's upper bits and a tag.
func (p *permutation) key(slot uint32, tag uint8) uint32 {
	return p.hide(slot)<<tagBits | uint32(tag)
}
