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

// Bounds of the entries that are read ahead.
const (
	aheadEntries = 256
	aheadBatches = 8
)

// readAhead reads a capture in another goroutine, which decodes frames while the caller follows
// connections. The last entry has the error, if the context has not ended. The channel is closed
// when the goroutine needs the Reader no more.
func readAhead(ctx context.Context, r *pcapread.Reader) <-chan []entry {
	out := make(chan []entry, aheadBatches)
	go func() {
		defer close(out)
		var batch []entry
		r.OnCall = func(c pcap.Call) { batch = append(batch, entry{frame: r.Frame(), call: &c}) }
		for {
			batch = make([]entry, 0, aheadEntries)
			var err error
			for len(batch) < aheadEntries && err == nil {
				var e entry
				e.d, e.s, err = r.NextPacket()
				e.frame, e.err = r.Frame(), err
				batch = append(batch, e)
			}
			select {
			case out <- batch:
			case <-ctx.Done():
				return
			}
			if err != nil || ctx.Err() != nil {
				return
			}
		}
	}()
	return out
}
