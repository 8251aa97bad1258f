// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"time"
)

const writeBufferBytes = 1 << 16

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
	if w.err != nil {
		return w.err
	}
	b, err := appendDatagram(w.block[:0], d, d.Comment, payload)
	w.block = b[:0]
	if err != nil {
		return err
	}
	return w.writeLocked(d.Time, b)
}

// WriteSegment writes a TCP segment, its payload in one or more pieces; it does
// not use s.Payload, Truncated and FrameLen. A comment is cut as Write does.
func (w *Writer) WriteSegment(s *Segment, payload ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	b, err := appendSegment(w.block[:0], s, s.Comment, payload)
	w.block = b[:0]
	if err != nil {
		return err
	}
	return w.writeLocked(s.Time, b)
}

// writeLocked writes a block, of a time.
func (w *Writer) writeLocked(t time.Time, block []byte) error {
	if _, w.err = w.out.Write(block); w.err == nil && t.Sub(w.flushed) > flushEvery {
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
