// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"verbena/internal/testkit/talk"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// ending is a capture during whose reading the context ends.
type ending struct {
	io.Reader
	left   int
	cancel context.CancelFunc
	closed bool
}

func (e *ending) Read(b []byte) (int, error) {
	if e.closed {
		return 0, errors.New("read after Read has returned")
	}
	n, err := e.Reader.Read(b)
	if e.left -= n; e.left < 0 {
		e.cancel()
	}
	return n, err
}

// A context that ends, ends the reading: nothing reads the capture any more.
func TestReadEndsWithItsContext(t *testing.T) {
	c := talk.New(t)
	for i := range uint32(20000) {
		c.Send(roce.RCSendOnly, i, 10)
	}
	capture := c.Bytes()
	for _, left := range []int{1000, len(capture) / 2, len(capture) - 1} {
		ctx, cancel := context.WithCancel(t.Context())
		e := &ending{Reader: bytes.NewReader(capture), left: left, cancel: cancel}
		r, err := pcapread.NewReader(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(ctx, Source{Name: "x", Reader: r}); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: %v", left, err)
		}
		e.closed = true // a race, if a goroutine still reads
		cancel()
	}
}

// Flights are as long as half the least round trip that the sender knows, where that is less than
// the measured ones.
func TestFlightsOfTheSender(t *testing.T) {
	for comment, want := range map[string]time.Duration{"": 10 * time.Microsecond, "qpn=0x000011 min_rtt_ns=8000": 4 * time.Microsecond, "qpn=0x000011 min_rtt_ns=0": 10 * time.Microsecond, "qpn=0x000011 min_rtt_ns=80000": 10 * time.Microsecond} {
		c := talk.New(t)
		c.Comment = comment
		c.Send(roce.RCSendOnly, 1, 10)
		c.At = 20 * time.Microsecond
		c.Ack(1)
		tl := read(t, c.Bytes())
		if got, _ := tl.Conns[0].Transit(tl); got != int64(want) {
			t.Errorf("%q: %v, want %v", comment, time.Duration(got), want)
		}
	}
}

// Batches that are read ahead are bounded by their bytes and, calls too, by their entries.
func TestReadAheadIsBounded(t *testing.T) {
	const payload = 60000
	for name, write := range map[string]func(c *talk.Capture, i uint32){
		"bytes":   func(c *talk.Capture, i uint32) { c.Send(roce.RCSendOnly, i, payload) },
		"packets": func(c *talk.Capture, i uint32) { c.Send(roce.RCSendOnly, i, 10) },
		"calls":   func(c *talk.Capture, i uint32) { c.Call("level=INFO msg=x", false) },
	} {
		c := talk.New(t)
		const entries = 2 * aheadEntries
		for i := range uint32(entries) {
			write(c, i)
		}
		r, err := pcapread.NewReader(bytes.NewReader(c.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for batch := range readAhead(t.Context(), r) {
			size := 0
			for _, e := range batch {
				if e.d != nil {
					size += len(e.d.Payload)
				}
			}
			if size > aheadBytes+payload+100 || len(batch) > aheadEntries {
				t.Errorf("%s: a batch has %d entries of %d bytes", name, len(batch), size)
			}
			n += len(batch)
		}
		if n != entries+1 {
			t.Errorf("%s: %d entries, want %d and the error", name, n, entries)
		}
	}
}
