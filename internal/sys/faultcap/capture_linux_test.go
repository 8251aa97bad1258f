// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"verbena/internal/sys/tcp"
	"verbena/internal/sys/udp"
)

// rounds is the number of questions that are answered. Where packets were recorded after they had
// been sent, one of the first 300 or so stood behind its answer.
const rounds = 5000

// ordered wants a capture of questions and answers that are numbered alike, each
// shown as it was sent and as it came, in that order.
func (s *shown) ordered(t *testing.T, asker netip.AddrPort) {
	t.Helper()
	if len(s.packets) != 4*rounds {
		t.Fatalf("%d packets were captured, want %d", len(s.packets), 4*rounds)
	}
	for i, p := range s.packets {
		if n := binary.BigEndian.Uint32([]byte(p.payload)); n != uint32(i/4) || (p.src == asker) != (i%4 < 2) {
			t.Fatalf("packet %d is of round %d, from %v", i, n, p.src)
		}
		if i > 0 && s.times[i].Before(s.times[i-1]) {
			t.Fatalf("packet %d is older than the one before, by %v", i, s.times[i-1].Sub(s.times[i]))
		}
	}
}

// exchange asks rounds times and wants an echo. A thread of its own takes the answers, as the
// engine may. So an answer is read before the asking thread has left the system.
func exchange(t *testing.T, ask func(b []byte), echo, answer func() []byte) {
	t.Helper()
	var ends sync.WaitGroup
	defer ends.Wait()
	answers := make(chan []byte, 1)
	ends.Go(func() {
		for range rounds {
			echo()
		}
	})
	ends.Go(func() {
		for range rounds {
			answers <- answer()
		}
	})
	for i := range uint32(rounds) {
		ask(binary.BigEndian.AppendUint32(nil, i))
		if b := <-answers; len(b) != 4 || binary.BigEndian.Uint32(b) != i {
			t.Errorf("answer %x in round %d", b, i)
		}
	}
}

func TestNoAnswerBeforeItsQuestion(t *testing.T) {
	var s shown
	c := NewCapture(&s)
	open := func() *Tap {
		k, err := udp.Listen(netip.MustParseAddr("127.0.0.1"), 0, udp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := New(k, Options{Capture: c})
		t.Cleanup(func() { p.Close() })
		return p
	}
	send := func(p *Tap, to netip.AddrPort, b []byte) {
		if n, err := p.WriteBatch([]udp.Datagrams{{Dst: to, Iov: [][]byte{b}}}); n != 1 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	receiver := func(p *Tap) func() []byte {
		b := udp.NewRxBatch()
		return func() []byte {
			for ; ; runtime.Gosched() {
				n, err := p.ReadBatch(b)
				if err != nil {
					t.Error(err)
					return nil
				}
				if n > 0 {
					return bytes.Clone(b.Message(0).Data)
				}
			}
		}
	}
	asker, other := open(), open()
	question, answer := receiver(other), receiver(asker)
	exchange(t,
		func(b []byte) { send(asker, other.LocalAddr(), b) },
		func() []byte { b := question(); send(other, asker.LocalAddr(), b); return b },
		answer)
	s.ordered(t, asker.LocalAddr())
}

func TestNoAnswerBeforeItsQuestionInStreams(t *testing.T) {
	var s shown
	c := NewCapture(&s)
	a, end := streams(t, Faults{}, c)
	b := NewStream(end, false, Faults{}, 2, c)
	defer a.Close()
	defer b.Close()
	s.packets, s.times = nil, nil // how it began
	send := func(p *Stream, out []byte) {
		var v tcp.Vectors
		if n, err := p.Writev(&v, [][]byte{out}); n != len(out) || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	receive := func(p *Stream) []byte {
		var v tcp.Vectors
		for in := make([]byte, 5); ; runtime.Gosched() { // with room left, each record is shown at once
			if n, err := p.Readv(&v, [][]byte{in}); n > 0 || err != nil {
				return in[:n]
			}
		}
	}
	exchange(t,
		func(out []byte) { send(a, out) },
		func() []byte { in := receive(b); send(b, in); return in },
		func() []byte { return receive(a) })
	s.ordered(t, a.Local())
}
