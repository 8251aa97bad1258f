// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// native is the byte order of netlink.
var native = binary.NativeEndian

const (
	headerBytes = 16 // struct nlmsghdr
	attrBytes   = 4  // struct nlattr

	typeDone  = 3
	typeError = 2

	flagRequest = 0x1
	flagMulti   = 0x2
	flagAck     = 0x4
	flagDump    = 0x300
	flagCapped  = 0x100 // an error has no more than the request's header

	clientNLDev = 5 // RDMA_NL_NLDEV, above the 10 bits of a command

	// maxMessage bounds an answer: libmnl's programs have a page for it.
	maxMessage = 4096
)

// header is a struct nlmsghdr.
type header struct {
	length    uint32
	typ       uint16
	flags     uint16
	seq, port uint32
}

func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes {
		return h, false
	}
	h = header{native.Uint32(b), native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]),
		native.Uint32(b[12:])}
	return h, h.length >= headerBytes && uint64(h.length) <= uint64(len(b))
}

func (h *header) dump() bool { return h.flags&flagDump == flagDump }

func (h *header) command() command { return command(h.typ & 0x3ff) }

// attributes are those of a request.
type attributes map[attribute][]byte

// parseAttributes returns the attributes of a request, the last one of each kind.
func parseAttributes(b []byte) (attributes, bool) {
	all := attributes{}
	for len(b) > 0 {
		if len(b) < attrBytes {
			return nil, false
		}
		n := int(native.Uint16(b))
		if n < attrBytes || n > len(b) {
			return nil, false
		}
		all[attribute(native.Uint16(b[2:])&0x3fff)] = b[attrBytes:n] // without its two flags
		b = b[min(len(b), align(n)):]
	}
	return all, true
}

// u32 returns the number that an attribute has; ok is false if it has none, or is not there.
func (a attributes) u32(t attribute) (v uint32, ok bool) {
	if b := a[t]; len(b) >= 4 {
		return native.Uint32(b), true
	}
	return 0, false
}

func align(n int) int { return (n + 3) &^ 3 }

// answer is a message being built.
type answer []byte

// begin begins an answer to a request.
func begin(h *header, typ, flags uint16) answer {
	b := make(answer, headerBytes, 256)
	native.PutUint16(b[4:], typ)
	native.PutUint16(b[6:], flags)
	native.PutUint32(b[8:], h.seq)
	native.PutUint32(b[12:], h.port)
	return b
}

// end sets the length.
func (b answer) end() answer {
	native.PutUint32(b, uint32(len(b)))
	return b
}

func (b *answer) put(t attribute, value []byte) {
	n := attrBytes + len(value)
	*b = native.AppendUint16(*b, uint16(n))
	*b = native.AppendUint16(*b, uint16(t))
	*b = append(*b, value...)
	*b = append(*b, make([]byte, align(n)-n)...)
}

func (b *answer) u8(t attribute, v uint8)   { b.put(t, []byte{v}) }
func (b *answer) u32(t attribute, v uint32) { b.put(t, native.AppendUint32(nil, v)) }
func (b *answer) u64(t attribute, v uint64) { b.put(t, native.AppendUint64(nil, v)) }
func (b *answer) text(t attribute, s string) {
	b.put(t, append([]byte(s), 0))
}

// nest puts an attribute that holds others.
func (b *answer) nest(t attribute, inside answer) { b.put(t, inside) }

// storageBytes is the size of struct sockaddr_storage. The families are Linux's.
const (
	storageBytes = 128
	familyIPv4   = 2
	familyIPv6   = 10
)

func (b *answer) addr(t attribute, a netip.AddrPort) {
	storage := make([]byte, storageBytes)
	binary.BigEndian.PutUint16(storage[2:], a.Port())
	if ip := a.Addr().Unmap(); ip.Is4() {
		native.PutUint16(storage, familyIPv4)
		copy(storage[4:], ip.AsSlice())
	} else {
		native.PutUint16(storage, familyIPv6)
		copy(storage[8:], ip.AsSlice())
	}
	b.put(t, storage)
}

// refusal returns the message by which a request fails, or with no error its acknowledgement.
func refusal(h *header, err syscall.Errno) []byte {
	b := begin(h, typeError, flagCapped)
	b = native.AppendUint32(b, uint32(-int32(err)))
	b = native.AppendUint32(b, h.length)
	b = native.AppendUint16(b, h.typ)
	b = native.AppendUint16(b, h.flags)
	b = native.AppendUint32(b, h.seq)
	b = native.AppendUint32(b, h.port)
	return b.end()
}

// done returns the message that ends a dump.
func done(h *header) []byte {
	b := begin(h, typeDone, flagMulti)
	b = native.AppendUint32(b, 0)
	return b.end()
}
