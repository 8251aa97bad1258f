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
// It is a permutation: each number has its turn before any comes again, so that
// packets still under way to a destroyed queue pair meet no other. The zero value is
// one of the orders.
type qpnOrder struct {
	key uint64 // random
}

// A Feistel network makes a permutation of any function; four rounds make one that
// looks random. Source: Luby and Rackoff, 1988.
const (
	qpnBits   = 14
	qpnRounds = 4
	qpnHalf   = qpnBits / 2
	qpnMask   = 1<<qpnHalf - 1
)

// number returns the number at a place, both of qpnBits.
func (o qpnOrder) number(place uint32) uint32 {
	left, right := place>>qpnHalf, place&qpnMask
	for round := range uint32(qpnRounds) {
		left, right = right, left^o.shuffle(round<<qpnHalf|right)&qpnMask
	}
	return left<<qpnHalf | right
}

func (o qpnOrder) shuffle(x uint32) uint32 {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], o.key)
	binary.BigEndian.PutUint32(b[8:], x)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint32(sum[:])
}
