// SPDX-License-Identifier: BSD-2-Clause

package mem

// Keys: 24 bits of permuted slot number and 8 bits of tag.
const (
	slotBits = 24
	maxSlots = 1 << slotBits
	slotMask = maxSlots - 1
	tagBits  = 8
)

// A permutation is a keyed bijection of the 24-bit numbers. It hides how many
// keys are out and which key follows which, and is cheap to undo, because
// every look-up does. It is no cipher: keys of 32 bits protect against
// accidents and guesses, the protection domain against the rest.
type permutation struct {
	mask0, mask1 uint32
	mul0, mul1   uint32 // odd
	inv0, inv1   uint32 // their inverses modulo 2^24
}

func newPermutation(seed func() uint32) permutation {
	p := permutation{mask0: seed() & slotMask, mask1: seed() & slotMask, mul0: seed() | 1,
		mul1: seed() | 1}
	p.inv0, p.inv1 = inverse(p.mul0), inverse(p.mul1)
	return p
}

// inverse returns 1/odd modulo 2^32, and so modulo 2^24. Newton's iteration
// doubles the bits that are right; odd is its own inverse modulo 8.
func inverse(odd uint32) uint32 {
	x := odd
	for range 4 {
		x *= 2 - odd*x
	}
	return x
}

// fold mixes the upper half into the lower. It is its own inverse.
func fold(x uint32) uint32 { return x ^ x>>(slotBits/2) }

// hide maps a slot number to the upper 24 bits of its keys.
func (p *permutation) hide(slot uint32) uint32 {
	x := fold((slot ^ p.mask0) * p.mul0 & slotMask)
	return fold(x*p.mul1&slotMask) ^ p.mask1
}

// show is the inverse of hide.
func (p *permutation) show(hidden uint32) uint32 {
	x := fold(hidden^p.mask1) * p.inv1 & slotMask
	return fold(x)*p.inv0&slotMask ^ p.mask0
}

// key joins a slot's upper bits and a tag.
func (p *permutation) key(slot uint32, tag uint8) uint32 {
	return p.hide(slot)<<tagBits | uint32(tag)
}
