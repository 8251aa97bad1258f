// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"net/netip"
)

// Bounds of a burst: one UDP_SEGMENT send may carry as much on every kernel that has it
// (UDP_MAX_SEGMENTS before Linux 6.9) over IPv4 and IPv6.
const (
	MaxSegments   = 64
	MaxBurstBytes = 65507 // 65,535 less the IPv4 and UDP headers
)

// Bounds of one system call.
const (
	// messages an RxBatch holds: beyond that copying dominates the call's cost
	RxMessages    = 16
	rxBufferBytes = 64 * 1024 // the longest burst a kernel joins
	maxIovecs     = 1024      // UIO_MAXIOV: the longest scatter list the kernel takes
	txMessages    = 64        // messages a sendmmsg
	// default SO_RCVBUF and SO_SNDBUF: two bandwidth-delay products of 10 GB/s at 400 µs
	bufferBytes     = 8 << 20
	maxRetriesEINTR = 8 // a non-blocking call is not interrupted more often in practice
)

// defaultTTL is the TTL that a socket sends by itself: the usual value needs no control
// message.
const defaultTTL = 64

// Datagrams is one item to send: a datagram, or a burst of equal datagrams (the
// last may be shorter) to one destination.
type Datagrams struct {
	Dst         netip.AddrPort
	Iov         [][]byte // concatenated; at most 1,024 elements
	SegmentSize int      // bytes a datagram; 0: Iov is a single datagram
	TOS         uint8    // IPv4 TOS or IPv6 traffic class
	TTL         uint8    // IPv4 TTL or IPv6 hop limit; 0: 64, and 1 for multicast
	Comment     string   // of the first datagram, in a capture
}

// Errors of a malformed item.
var (
	errFamily = errors.New("destination is not of the socket's address family")
	errIovecs = errors.New("more than 1,024 elements in a scatter list")
	errBurst  = errors.New("burst of more than 64 datagrams or 65,507 bytes")
)

// Bytes returns the UDP payload bytes of all datagrams.
func (d *Datagrams) Bytes() int {
	n := 0
	for _, p := range d.Iov {
		n += len(p)
	}
	return n
}

// Message is one datagram received, or a burst of equal datagrams (the last may
// be shorter) of one flow that the kernel joined. Datagrams of one burst may be
// for different queue pairs.
type Message struct {
	Data        []byte
	SegmentSize int            // bytes a datagram; len(Data) if there is one
	Src         netip.AddrPort // without zone
	Dst         netip.Addr     // where it was sent to; the bound address if that is not a wildcard
	TOS         uint8          // IPv4 TOS or IPv6 traffic class; the low two bits are ECN
	// ID is the IPv4 identification of the first datagram, where the source of messages shows it.
	ID uint16
	// Port is the port where it was sent to, if the source of messages has several; 0 else.
	Port uint16
}

// Segments returns the number of datagrams.
func (m *Message) Segments() int {
	if m.SegmentSize <= 0 || m.SegmentSize >= len(m.Data) {
		return 1
	}
	return (len(m.Data) + m.SegmentSize - 1) / m.SegmentSize
}

// Segment returns datagram i, 0 ≤ i < Segments.
func (m *Message) Segment(i int) []byte {
	if m.SegmentSize <= 0 || m.SegmentSize >= len(m.Data) {
		return m.Data
	}
	from := i * m.SegmentSize
	to := min(from+m.SegmentSize, len(m.Data))
	return m.Data[from:to:to]
}

// RxBatch is the memory of one reader: buffers (1 MiB, touched only as far as
// they are used) and message headers. It is read into again and again.
type RxBatch struct {
	msgs [RxMessages]Message
	n    int
	want int  // messages to ask for: few while few come, so that a lone one costs no second look
	full bool // the last read returned as many as it asked for
	buf  []byte
	os   rxHeaders
}

// NewRxBatch returns an empty batch with its buffers allocated.
func NewRxBatch() *RxBatch {
	b := &RxBatch{want: 1, buf: make([]byte, RxMessages*rxBufferBytes)}
	b.os.init(b)
	return b
}

// Len returns the number of messages of the last read.
func (b *RxBatch) Len() int { return b.n }

// Message returns message i of the last read, valid until the next.
func (b *RxBatch) Message(i int) *Message { return &b.msgs[:b.n][i] }

// Messages returns all messages of the last read, valid until the next.
func (b *RxBatch) Messages() []Message { return b.msgs[:b.n] }

// Clear makes the batch that of another source of messages than a Socket, and empty. The source
// fills it by Add.
func (b *RxBatch) Clear() { b.n = 0 }

// Full reports whether there is no room for another message.
func (b *RxBatch) Full() bool { return b.n == RxMessages }

// Add adds a message after Clear. Its data is the source's, or in Buffer.
func (b *RxBatch) Add(m Message) {
	b.msgs[b.n] = m
	b.n++
}

// Buffer returns memory of the batch for the data of the next message.
func (b *RxBatch) Buffer() []byte { return b.buffer(b.n) }

// buffer returns the memory message i arrives in.
func (b *RxBatch) buffer(i int) []byte {
	return b.buf[i*rxBufferBytes : (i+1)*rxBufferBytes : (i+1)*rxBufferBytes]
}

// adapt chooses how many messages the next read asks for: more only where reads
// are full one after the other.
func (b *RxBatch) adapt(got int) {
	if got < b.want {
		b.want, b.full = max(got, 1), false
		return
	}
	if b.full {
		b.want = min(2*b.want, RxMessages)
	}
	b.full = true
}
