// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"crypto/sha256"
	"encoding/binary"
)

// qpnOrder is the order in which a process gives out the numbers of its slot. Nobody outside can
// predict it from the numbers seen so far. RoCEv2 authenticates nothing, so a stranger that knows
// one queue pair's number must not know the next.
//
// Each part of the slot has an order of its own, a permutation: each number has its turn before any
// comes again, so that packets still under way to a destroyed queue pair meet no other. The zero
// value is one of the orders.
type qpnOrder struct {
	key uint64 // random
}

// A Feistel network makes a permutation of any function; four rounds make one that
// looks random. Source: Luby and Rackoff, 1988.
const (
	qpnBits   = 14
	partBits  = 2
	placeBits = qpnBits - partBits
	qpnRounds = 4
	qpnHalf   = placeBits / 2
	qpnMask   = 1<<qpnHalf - 1
)

// Parts of the numbers of a process, by their top bits. Each may be read by another thread: see
// Lane.Part.
const Parts = 1 << partBits

// number returns the number of qpnBits at a place, of placeBits, of a part.
func (o qpnOrder) number(part int, place uint32) uint32 {
	high := uint32(part)
	left, right := place>>qpnHalf&qpnMask, place&qpnMask
	for round := range uint32(qpnRounds) {
		left, right = right, left^o.shuffle((high*qpnRounds+round)<<qpnHalf|right)&qpnMask
	}
	return high<<placeBits | left<<qpnHalf | right
}

func (o qpnOrder) shuffle(x uint32) uint32 {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], o.key)
	binary.BigEndian.PutUint32(b[8:], x)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint32(sum[:])
}
