// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"context"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// entry is a datagram, a segment or a call of a capture, or the error at its end.
type entry struct {
	frame int
	d     *pcap.Datagram
	s     *pcap.Segment
	call  *pcap.Call
	err   error
}

// Bounds of the entries that are read ahead. A batch ends with the entry that reaches either of its
// own.
const (
	aheadEntries = 256
	aheadBytes   = 1 << 20
	aheadBatches = 8
)

// readAhead reads a capture in another goroutine, which decodes frames while the caller follows
// connections. The last entry has the error, if the context has not ended. The channel is closed
// when the goroutine needs the Reader no more.
func readAhead(ctx context.Context, r *pcapread.Reader) <-chan []entry {
	out := make(chan []entry, aheadBatches)
	go func() {
		defer close(out)
		q := ahead{done: ctx.Done(), out: out}
		r.OnCall = func(c pcap.Call) { q.add(entry{frame: r.Frame(), call: &c}, len(c.Text)) }
		for !q.ended {
			var e entry
			e.d, e.s, e.err = r.NextPacket()
			e.frame = r.Frame()
			q.add(e, e.bytes())
			if e.err != nil {
				q.send()
				return
			}
		}
	}()
	return out
}

// bytes returns about as many bytes as a packet keeps in memory. FrameLen may be forged.
func (e *entry) bytes() int {
	switch {
	case e.d != nil:
		return max(e.d.FrameLen, cap(e.d.Payload)) + len(e.d.Comment)
	case e.s != nil:
		return max(e.s.FrameLen, cap(e.s.Payload)) + len(e.s.Comment)
	}
	return 0
}

// ahead collects entries in batches.
type ahead struct {
	done  <-chan struct{}
	out   chan<- []entry
	batch []entry
	bytes int  // of the batch
	ended bool // nobody takes entries any more
}

func (q *ahead) add(e entry, bytes int) {
	if q.batch == nil {
		q.batch = make([]entry, 0, aheadEntries)
	}
	q.batch = append(q.batch, e)
	if q.bytes += bytes; q.bytes >= aheadBytes || len(q.batch) == aheadEntries {
		q.send()
	}
}

func (q *ahead) send() {
	select {
	case q.out <- q.batch:
	case <-q.done:
		q.ended = true
	}
	q.batch, q.bytes = nil, 0
}
