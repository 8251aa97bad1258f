// SPDX-License-Identifier: BSD-2-Clause

package umad

import "encoding/binary"

// Sizes in bytes.
const (
	MADBytes       = 256
	oldHeaderBytes = 56 // without a P_Key index
	newHeaderBytes = 64
	// MessageBytes is the longest message that a File takes or gives.
	MessageBytes = newHeaderBytes + MADBytes
)

// header is the part of struct ib_user_mad_hdr that a File needs. Its first words have the byte
// order of the machine; addresses have the network's.
type header struct {
	agent     uint32
	status    uint32 // an errno
	timeoutMS uint32
	retries   uint32
	length    uint32 // of header and MAD
	lid       uint16
	grh       bool
}

// parseMessage splits a message of the application. Its length says which header it has.
func parseMessage(b []byte) (h header, head, mad []byte, ok bool) {
	switch len(b) {
	case oldHeaderBytes + MADBytes:
		head, mad = b[:oldHeaderBytes], b[oldHeaderBytes:]
	case newHeaderBytes + MADBytes:
		head, mad = b[:newHeaderBytes], b[newHeaderBytes:]
	default:
		return h, nil, nil, false
	}
	e := binary.NativeEndian
	h.agent, h.status, h.timeoutMS = e.Uint32(head), e.Uint32(head[4:]), e.Uint32(head[8:])
	h.retries, h.length = e.Uint32(head[12:]), e.Uint32(head[16:])
	h.lid, h.grh = binary.BigEndian.Uint16(head[28:]), head[32] != 0
	return h, head, mad, true
}

// appendMessage appends the message by which a MAD, or the beginning of one, reaches the
// application. It has the addresses of the request's header.
func appendMessage(b, head []byte, status uint32, mad []byte) []byte {
	at := len(b)
	b = append(append(b, head...), mad...)
	e := binary.NativeEndian
	e.PutUint32(b[at+4:], status)
	e.PutUint32(b[at+16:], uint32(len(head)+len(mad)))
	return b
}
