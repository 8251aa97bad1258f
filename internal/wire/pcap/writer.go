// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	writeBufferBytes = 1 << 16
	maxPayloadBytes  = 1<<16 - 1 - ipv4Bytes - udpBytes
	maxSegmentBytes  = 1<<16 - 1 - ipv4Bytes - tcpBytes
	maxCommentBytes  = 1<<16 - 1
)

// flushEvery bounds the time that the capture of a killed process lacks.
const flushEvery = 250 * time.Millisecond

// Writer writes datagrams and TCP segments to a pcapng stream. Several goroutines
// may call its methods; the file has the frames in the order in which the calls
// got the lock. After an error of the stream all calls return that error and
// write nothing.
type Writer struct {
	mu      sync.Mutex
	out     *bufio.Writer
	closer  io.Closer
	joined  []byte    // guarded by mu: the payload in one piece, reused
	frame   []byte    // guarded by mu: reused
	block   []byte    // guarded by mu: reused
	flushed time.Time // guarded by mu: by the clock of the packets
	err     error     // guarded by mu
}

// NewWriter returns a Writer to w, which Close closes if it is an io.Closer.
// Wireshark shows device as the name of the interface. Writes are buffered: see
// Flush.
func NewWriter(w io.Writer, device string) *Writer {
	out := bufio.NewWriterSize(w, writeBufferBytes)
	closer, _ := w.(io.Closer)
	_, err := out.Write(appendHeader(nil, device))
	return &Writer{out: out, closer: closer, err: err}
}

// Write writes one datagram: a UDP payload from BTH to ICRC, in one or more
// pieces. d.IPID is the identification for which the ICRC was computed. Don't
// Fragment is set. It does not use d.Payload, DontFragment, Truncated and
// FrameLen. A comment is cut to 65,535 bytes.
func (w *Writer) Write(d *Datagram, payload ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	udp := func(b []byte) ([]byte, error) { return appendUDP(b, d, w.joined) }
	return w.writeLocked(d.Time, d.Comment, maxPayloadBytes, payload, udp)
}

// WriteSegment writes a TCP segment, its payload in one or more pieces; it does
// not use s.Payload, Truncated and FrameLen. A comment is cut as Write does.
func (w *Writer) WriteSegment(s *Segment, payload ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	tcp := func(b []byte) ([]byte, error) { return appendTCP(b, s, w.joined) }
	return w.writeLocked(s.Time, s.Comment, maxSegmentBytes, payload, tcp)
}

// writeLocked joins a payload, and writes the frame that encode makes of it.
func (w *Writer) writeLocked(t time.Time, comment string, limit int, payload [][]byte,
	encode func([]byte) ([]byte, error)) (err error) {
	if w.err != nil {
		return w.err
	}
	w.joined = w.joined[:0]
	for _, piece := range payload {
		w.joined = append(w.joined, piece...)
	}
	if len(w.joined) > limit {
		return fmt.Errorf("pcap: payload of %d bytes: a frame holds %d", len(w.joined), limit)
	}
	if w.frame, err = encode(w.frame[:0]); err != nil {
		return err
	}
	comment = comment[:min(len(comment), maxCommentBytes)]
	w.block = appendPacket(w.block[:0], t, w.frame, comment)
	if _, w.err = w.out.Write(w.block); w.err == nil && t.Sub(w.flushed) > flushEvery {
		w.flushed = t
		w.err = w.out.Flush()
	}
	return w.err
}

// Flush writes out the buffer.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// ErrClosed is returned by calls that follow Close.
var ErrClosed = errors.New("pcap: writer is closed")

// Close flushes, and closes the stream that the Writer writes to. It returns the
// first error that any call met.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closer != nil && w.err != ErrClosed {
		if cerr := w.closer.Close(); err == nil {
			err = cerr
		}
	}
	w.err = ErrClosed
	return err
}
