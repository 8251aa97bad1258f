// SPDX-License-Identifier: BSD-2-Clause

package steer

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/wire/ether"
)

// HashKeyBytes is the length of a key of the Toeplitz hash.
const HashKeyBytes = 40

// Hash spreads frames over receive queues. It is immutable.
type Hash struct {
	key    [HashKeyBytes]byte
	fields ib.RXHashFields
}

// Fields that a Hash takes.
const (
	hash4    = ib.RXHashSrcIPv4 | ib.RXHashDstIPv4
	hash6    = ib.RXHashSrcIPv6 | ib.RXHashDstIPv6
	hashTCP  = ib.RXHashSrcPortTCP | ib.RXHashDstPortTCP
	hashUDP  = ib.RXHashSrcPortUDP | ib.RXHashDstPortUDP
	AllHash  = hash4 | hash6 | hashTCP | hashUDP
	maxInput = 36 // two IPv6 addresses and two ports
)

// NewHash returns the hash with a key, over some fields. ok is false for fields that do not go
// together: those of IPv4 and IPv6, or of TCP and UDP, and unknown ones.
//
// Source: the comment of enum ibv_rx_hash_fields.
func NewHash(key [HashKeyBytes]byte, fields ib.RXHashFields) (h Hash, ok bool) {
	ok = fields&^AllHash == 0 && (fields&hash4 == 0 || fields&hash6 == 0) &&
		(fields&hashTCP == 0 || fields&hashUDP == 0)
	return Hash{key, fields}, ok
}

// Of returns the Toeplitz hash of a frame's fields, in the order source and destination address,
// source and destination port. It is 0 for a frame without the headers of the fields.
//
// Source: Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation".
func (k *Hash) Of(h *ether.Headers) uint32 {
	var room [maxInput]byte
	in := room[:0]
	add := func(field ib.RXHashFields, b []byte) {
		if k.fields&field != 0 {
			in = append(in, b...)
		}
	}
	if ip := h.IPv4(); ip != nil {
		add(ib.RXHashSrcIPv4, ip[12:16])
		add(ib.RXHashDstIPv4, ip[16:20])
	}
	if ip := h.IPv6(); ip != nil {
		add(ib.RXHashSrcIPv6, ip[8:24])
		add(ib.RXHashDstIPv6, ip[24:40])
	}
	if p := h.Ports(); p != nil {
		src, dst := ib.RXHashSrcPortUDP, ib.RXHashDstPortUDP
		if h.Proto == ether.ProtoTCP {
			src, dst = ib.RXHashSrcPortTCP, ib.RXHashDstPortTCP
		}
		add(src, p[:2])
		add(dst, p[2:4])
	}
	return k.toeplitz(in)
}

// toeplitz sums, for each bit of the input that is set, the 32 bits of the key that begin there.
func (k *Hash) toeplitz(in []byte) (sum uint32) {
	for i, b := range in {
		window := uint64(binary.BigEndian.Uint32(k.key[i:]))<<8 | uint64(k.key[i+4])
		for bit := range 8 {
			if b>>(7-bit)&1 != 0 {
				sum ^= uint32(window >> (8 - bit))
			}
		}
	}
	return sum
}
