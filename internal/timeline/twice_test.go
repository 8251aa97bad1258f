// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"verbena/internal/testkit/talk"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// TestBothEndsInOneCapture: a process that is both ends captures each packet when it leaves and
// when it arrives, from the same address perhaps. That is no repetition; a real one is. A capture
// with directions says so however late a busy machine receives.
func TestBothEndsInOneCapture(t *testing.T) {
	want := kinds(read(t, talk.Lossy(t)))
	for name, set := range map[string]func(*talk.Capture){
		"soon":            func(c *talk.Capture) { c.Twice = true },
		"told":            func(c *talk.Capture) { c.Twice, c.Told = true, true },
		"told and late":   func(c *talk.Capture) { c.Twice, c.Told, c.Travel = true, true, 3*soonest },
		"told at one end": func(c *talk.Capture) { c.Told = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := talk.New(t)
			set(c)
			talk.Story(c)
			if got := kinds(read(t, c.Bytes())); !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %v\nwant %v", got, want)
			}
		})
	}
}

// TestRepeatIsNoArrival: a request that is sent again leaves twice, whether or not it arrives.
func TestRepeatIsNoArrival(t *testing.T) {
	c := talk.New(t)
	c.Told, c.Twice = true, true
	c.Send(roce.RCSendOnly, 1, 10)
	c.Twice = false // lost on its way, twice
	c.Send(roce.RCSendOnly, 2, 10)
	c.Send(roce.RCSendOnly, 2, 10)
	c.Twice = true
	c.Send(roce.RCSendOnly, 2, 10)
	c.Ack(2)
	if got := strings.Join(kinds(read(t, c.Bytes())), ", "); got != "sent, sent lost, repeated lost, repeated, ack" {
		t.Error(got)
	}
}

// TestBothEndsOfAStream: the bytes of a TCP connection that a capture has at both ends arrive, and
// are not sent again, however late the process reads them.
func TestBothEndsOfAStream(t *testing.T) {
	open := func() *pcapread.Reader {
		r, err := pcapread.Open(filepath.Join(captures, "siw-read.pcap"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	once := open()
	defer once.Close()
	want, err := Read(t.Context(), Source{Name: "test", Reader: once})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "test")
	in := open()
	defer in.Close()
	for {
		_, s, err := in.NextPacket()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s == nil {
			continue
		}
		for _, s.Direction = range []pcap.Direction{pcap.Outbound, pcap.Inbound} {
			if err := w.WriteSegment(s, s.Payload); err != nil {
				t.Fatal(err)
			}
			s.Time = s.Time.Add(3 * soonestCM * time.Nanosecond)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, file.Bytes())
	if a, b := kinds(got), kinds(want); len(b) < 10 || !reflect.DeepEqual(a, b) {
		t.Errorf("\n got %v\nwant %v", a, b)
	}
}
