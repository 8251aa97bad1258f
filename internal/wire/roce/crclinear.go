// SPDX-License-Identifier: BSD-2-Clause

package roce

import "hash/crc32"

// The CRC is linear over GF(2). The CRC of a message with some field set is the CRC with the field
// zero, xor the field's own contribution. That depends only on the field's value and how many bytes
// follow it. So the lengths and the identification of a packet cost table look-ups, not a pass over
// the headers. An identification nobody told can be solved from a difference.

// step advances a raw (not complemented) CRC register over one byte.
func step(c uint32, v byte) uint32 { return crc32.IEEETable[byte(c)^v] ^ c>>8 }

// followed[n] is the contribution of a byte with n more behind it.
var followed = func() (t [4][256]uint32) {
	for n := range t {
		for v := range t[n] {
			t[n][v] = advance(step(0, byte(v)), n)
		}
	}
	return t
}()

// step4 is step over the four bytes of a little-endian word.
func step4(c, v uint32) uint32 {
	c ^= v
	return followed[3][byte(c)] ^ followed[2][byte(c>>8)] ^ followed[1][byte(c>>16)] ^
		followed[0][c>>24]
}

// updateBytes is crc32.Update for a few bytes that must not escape to the heap.
func updateBytes(state uint32, b []byte) uint32 {
	c := ^state
	for _, v := range b {
		c = step(c, v)
	}
	return ^c
}

// field is the contribution of a 16-bit big-endian header field, by byte.
type field struct {
	high, low [256]uint32
}

// fieldBefore returns the field that is followed by after bytes.
func fieldBefore(after int) (f field) {
	for v := range 256 {
		f.low[v] = advance(step(0, byte(v)), after)
		f.high[v] = advance(step(0, byte(v)), after+1)
	}
	return f
}

func (f *field) contribution(v uint16) uint32 { return f.high[v>>8] ^ f.low[v&0xff] }

// advance runs a register over n zero bytes.
func advance(c uint32, n int) uint32 {
	for range n {
		c = step(c, 0)
	}
	return c
}

// Bytes between a field and BTH.
const (
	afterUDPLength = 2
	v4AfterTotal   = ipv4Bytes - 4 + udpBytes
	v4AfterIdent   = ipv4Bytes - 6 + udpBytes
	v6AfterPayload = ipv6Bytes - 6 + udpBytes
)

var (
	v4UDPLength   = fieldBefore(afterUDPLength)
	v4TotalLength = fieldBefore(v4AfterTotal)
	v4Ident       = fieldBefore(v4AfterIdent)
	v6Length      = v6LengthField()
)

// v6LengthField contributes both lengths of IPv6, which are equal.
func v6LengthField() field {
	f, ip := fieldBefore(afterUDPLength), fieldBefore(v6AfterPayload)
	for v := range 256 {
		f.high[v] ^= ip.high[v]
		f.low[v] ^= ip.low[v]
	}
	return f
}

// operator is a linear map of the register, by nibble.
type operator [8][16]uint32

func (o *operator) apply(c uint32) uint32 {
	return o[0][c&15] ^ o[1][c>>4&15] ^ o[2][c>>8&15] ^ o[3][c>>12&15] ^
		o[4][c>>16&15] ^ o[5][c>>20&15] ^ o[6][c>>24&15] ^ o[7][c>>28]
}

// operatorOf tabulates a linear map.
func operatorOf(f func(uint32) uint32) (o operator) {
	for i := range o {
		for v := range o[i] {
			o[i][v] = f(uint32(v) << (4 * i))
		}
	}
	return o
}

// retreats[k] takes a register back over 2^k zero bytes; 16 of them reach over
// the longest datagram.
var retreats = func() (t [16]operator) {
	// The top bytes of the CRC table are all different. So a step over a zero byte is undone by the
	// one entry that can have made the top byte.
	var entry [256]byte
	for i, v := range crc32.IEEETable {
		entry[v>>24] = byte(i)
	}
	t[0] = operatorOf(func(c uint32) uint32 {
		i := entry[c>>24]
		return (c^crc32.IEEETable[i])<<8 | uint32(i)
	})
	for k := 1; k < len(t); k++ {
		t[k] = operatorOf(func(c uint32) uint32 { return t[k-1].apply(t[k-1].apply(c)) })
	}
	return t
}()

// retreat takes a register back over n zero bytes, n < 2^16.
func retreat(c uint32, n int) uint32 {
	for k := 0; n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			c = retreats[k].apply(c)
		}
	}
	return c
}
