// SPDX-License-Identifier: BSD-2-Clause

package talk

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// Fate is the way of a packet: it arrives after its flight, or not at all.
type Fate struct {
	Flight time.Duration
	Lost   bool
	Unseen bool // its sender's capture lacks it
	Copies int  // that arrive beside it, a microsecond later each
}

// Ends makes of a conversation the captures of its two ends.
type Ends struct {
	Ahead time.Duration    // B's clock, of A's
	Told  bool             // the captures say which packets leave and arrive
	Fate  func(n int) Fate // of the packet with an index
}

// Split takes a capture in which each packet has its time of departure, and calls. Those that name
// B's queue pair are B's.
func (e Ends) Split(t testing.TB, capture []byte) (a, b []byte) {
	t.Helper()
	r, err := pcapread.NewReader(bytes.NewReader(capture))
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		at    time.Time
		write func(w *pcap.Writer) error
	}
	var files [2][]event
	add := func(file int, at time.Time, write func(w *pcap.Writer, at time.Time) error) {
		if file == 1 {
			at = at.Add(e.Ahead)
		}
		files[file] = append(files[file],
			event{at, func(w *pcap.Writer) error { return write(w, at) }})
	}
	r.OnCall = func(c pcap.Call) {
		file := 0
		if strings.Contains(c.Text, "0x000022") {
			file = 1
		}
		add(file, c.Time, func(w *pcap.Writer, at time.Time) error {
			c.Time = at
			return w.WriteCall(&c)
		})
	}
	for n := 0; ; n++ {
		d, s, err := r.NextPacket()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var at time.Time
		var from int
		var write func(w *pcap.Writer, at time.Time, way pcap.Direction, leaves bool) error
		if d != nil {
			d, payload := *d, bytes.Clone(d.Payload)
			at = d.Time
			if d.Src.Addr() == B.Addr() {
				from = 1
			}
			write = func(w *pcap.Writer, at time.Time, way pcap.Direction, leaves bool) error {
				d := d
				d.Time, d.Direction = at, way
				if !leaves {
					d.Comment = ""
				}
				return w.Write(&d, payload)
			}
		} else {
			s, payload := *s, bytes.Clone(s.Payload)
			at = s.Time
			if s.Src.Addr() == B.Addr() {
				from = 1
			}
			write = func(w *pcap.Writer, at time.Time, way pcap.Direction, leaves bool) error {
				s := s
				s.Time, s.Direction = at, way
				if !leaves {
					s.Comment = ""
				}
				return w.WriteSegment(&s, payload)
			}
		}
		out, in := pcap.DirectionUnknown, pcap.DirectionUnknown
		if e.Told {
			out, in = pcap.Outbound, pcap.Inbound
		}
		f := e.Fate(n)
		if !f.Unseen {
			add(from, at, func(w *pcap.Writer, at time.Time) error {
				return write(w, at, out, true)
			})
		}
		for i := range f.Copies + 1 {
			if f.Lost {
				break
			}
			add(1-from, at.Add(f.Flight+time.Duration(i)*time.Microsecond),
				func(w *pcap.Writer, at time.Time) error { return write(w, at, in, false) })
		}
	}
	var out [2][]byte
	for i, list := range files {
		slices.SortStableFunc(list, func(x, y event) int { return x.at.Compare(y.at) })
		var file bytes.Buffer
		w := pcap.NewWriter(&file, "test")
		for _, v := range list {
			if err := v.write(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out[i] = file.Bytes()
	}
	return out[0], out[1]
}
