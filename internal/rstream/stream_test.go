// SPDX-License-Identifier: BSD-2-Clause

package rstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	wire "verbena/internal/wire/rsocket"
)

// end is one end of a stream, with the memory that a device would work on.
type end struct {
	Stream
	sbuf, rbuf, table []byte
	large             []byte // the second receive buffer
	other             *end
	toOther           []func() // what the network has yet to do
	out, in           []byte   // bytes of the application
	closed            bool     // both halves are shut by it
}

// The peer names memory by these addresses. The table is behind the receive buffer.
const base, largeBase = 1 << 20, 1 << 30

const largeTimes = 6 // the small buffer

// write is a WRITE that reaches e.
func (e *end) write(t *testing.T, to Peer, b []byte) {
	memory := append(e.rbuf[:len(e.rbuf):len(e.rbuf)], e.table...)
	at := to.Addr - base
	if to.Key == 8 {
		if at = to.Addr - largeBase; at > uint64(len(e.large)) || at+uint64(len(b)) > uint64(len(e.large)) {
			t.Fatalf("%d bytes at %#x", len(b), to.Addr)
		}
		copy(e.large[at:], b)
		return
	}
	if to.Key != 7 || at > uint64(len(memory)) || at+uint64(len(b)) > uint64(len(memory)) {
		t.Fatalf("%d bytes at %#x", len(b), to.Addr)
	}
	if at < uint64(len(e.rbuf)) {
		copy(e.rbuf[at:], b)
	} else {
		copy(e.table[at-uint64(len(e.rbuf)):], b)
	}
}

func newEnds(c Config) (a, b *end) {
	a, b = &end{}, &end{}
	for _, e := range []*end{a, b} {
		e.Config = c
		e.sbuf, e.rbuf, e.table = make([]byte, c.SendBuffer), make([]byte, c.ReceiveBuffer/2*2), make([]byte, TableSize)
	}
	a.other, b.other = b, a
	for _, e := range []*end{a, b} {
		rbuf := wire.Window{Addr: base, Key: 7}
		table := wire.Window{Addr: base + uint64(len(e.rbuf)), Key: 7}
		data, _, ok := wire.ParseConnData(e.other.Local(rbuf, table).Append(nil))
		if !ok || !Acceptable(data) {
			panic("private data")
		}
		e.Start(data, rbuf, e.table)
	}
	return a, b
}

// send posts a message, whose parts stay where they are. Its completion comes when the peer has it.
func (e *end) send(t *testing.T, to Peer, message uint32, sent Sent, completes bool, parts ...[]byte) {
	e.toOther = append(e.toOther, func() {
		if b := bytes.Join(parts, nil); len(b) > 0 {
			e.other.write(t, to, b)
		}
		if e.BySend {
			e.other.HandleSend(binary.LittleEndian.AppendUint32(nil, message))
		} else {
			e.other.HandleImmediate(message)
		}
		if completes {
			e.HandleSent(SentOf(sent.ID()))
		}
	})
}

// step does one thing that is possible.
func (e *end) step(t *testing.T, r *rand.Rand) {
	if e.MayGrowReceive() && r.IntN(2) == 0 {
		e.large = make([]byte, largeTimes*e.ReceiveBuffer)
		e.GrowReceive(wire.Window{Addr: largeBase, Key: 8, Length: uint32(len(e.large))})
	}
	var c Control
	for e.PollControl(&c) {
		var entry []byte
		if c.HasEntry {
			entry = bytes.Clone(c.Entry[:])
		}
		e.send(t, c.To, c.Message, c.Sent, true, entry)
	}
	switch r.IntN(3) {
	case 0:
		if e.MayGrowSend() && r.IntN(2) == 0 {
			e.sbuf = make([]byte, largeTimes*e.SendBuffer)
			e.GrowSend(uint32(len(e.sbuf)))
		}
		at, n, more := e.Free()
		if n+more == 0 || !e.MaySend() || len(e.out) == 0 {
			return
		}
		size := min(1+r.Uint32N(n+more), uint32(len(e.out)))
		parts := [][]byte{bytes.Clone(e.out[:size])} // inline
		if size >= 64 {
			parts = [][]byte{e.sbuf[at:][:min(size, n)], e.sbuf[:size-min(size, n)]}
			copy(parts[0], e.out)
			copy(parts[1], e.out[len(parts[0]):size])
		}
		w := e.Send(size, size < 64)
		e.out = e.out[size:]
		e.send(t, w.To, w.Message, w.Sent, w.Signal, parts...)
		if len(e.out) == 0 {
			if e.closed = r.IntN(2) == 0; e.closed {
				e.Close()
			} else {
				e.ShutWrite()
			}
		}
	case 1:
		if len(e.toOther) > 0 {
			e.toOther[0]()
			e.toOther = e.toOther[1:]
		}
	case 2:
		if at, n := e.Ready(); n > 0 {
			n = 1 + r.Uint32N(n)
			if small := uint32(len(e.rbuf)); at >= e.ReceiveBuffer {
				e.in = append(e.in, e.large[at-e.ReceiveBuffer:][:n]...)
			} else if at+n <= small {
				e.in = append(e.in, e.rbuf[at:at+n]...)
			} else {
				t.Fatalf("%d bytes at %d", n, at)
			}
			e.Consume(n)
		}
	}
}

var configs = []Config{
	{SendBuffer: 128 << 10, ReceiveBuffer: 128 << 10, SendQueue: 384, ReceiveQueue: 384},
	{SendBuffer: LowWater, ReceiveBuffer: 300, SendQueue: 16, ReceiveQueue: 16},
	{SendBuffer: 5000, ReceiveBuffer: 3, SendQueue: 17, ReceiveQueue: 19},
	{SendBuffer: 9999, ReceiveBuffer: 7000, SendQueue: 20, ReceiveQueue: 20, BySend: true},
}

// All bytes arrive in order, both ways, whatever the order of events; both ends settle then. What
// comes to one that has closed may be cut off.
func TestRandomStreams(t *testing.T) {
	for i, c := range configs {
		grown := 0
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			a, b := newEnds(c)
			var want [2][]byte
			for k, e := range []*end{a, b} {
				want[k] = make([]byte, 1+r.IntN(30*int(c.ReceiveBuffer)))
				for j := range want[k] {
					want[k][j] = byte(r.Uint32())
				}
				e.out = want[k]
			}
			done := func(e *end) bool { return e.Settled() && (e.Ended() || e.closed) && e.rxReady == 0 }
			for steps := 0; !done(a) || !done(b); steps++ {
				if steps > 10_000_000 {
					t.Fatalf("config %d, seed %d: stuck: %+v\n%+v", i, seed, a.Stream, b.Stream)
				}
				[]*end{a, b}[r.IntN(2)].step(t, r)
			}
			for _, e := range []*end{a, b} {
				if e.rxGrown && e.other.txGrown {
					grown++
				}
			}
			got := func(e *end, all []byte) bool {
				return bytes.Equal(e.in, all) || e.closed && bytes.HasPrefix(all, e.in)
			}
			if a.Err() != nil || b.Err() != nil || !got(a, want[1]) || !got(b, want[0]) {
				t.Fatalf("config %d, seed %d: %v, %v, %d bytes of %d, %d of %d", i, seed, a.Err(), b.Err(), len(a.in), len(want[1]), len(b.in), len(want[0]))
			}
		}
		if long := c.ReceiveBuffer/2 >= BulkMessage; (grown > 0) != long {
			t.Errorf("config %d: %d halves have grown", i, grown)
		}
	}
}

// A stream of short messages keeps its small buffers.
func TestShortMessagesKeepSmallBuffers(t *testing.T) {
	for _, size := range []uint32{BulkMessage / 2, BulkMessage} {
		a, _ := newEnds(configs[0])
		var c Control
		for range 4 * configs[0].ReceiveBuffer / size {
			for a.PollControl(&c) {
				a.HandleSent(c.Sent)
			}
			a.HandleImmediate(wire.Message{Type: wire.Data, Value: size}.Uint32())
			a.Consume(size)
		}
		if long := size == BulkMessage; a.MayGrowReceive() != long || a.Err() != nil {
			t.Errorf("messages of %d bytes: may grow: %v, %v", size, !long, a.Err())
		}
	}
}

// The bytes behind those that are on their way in the small buffer lie in the large one, which is
// free all the same.
func TestGrowSendBesideOldBytes(t *testing.T) {
	a, _ := newEnds(configs[0])
	old := a.SendBuffer / 2
	w := a.Send(old, false)
	a.windows[a.window].Length = 4 * a.SendBuffer
	if !w.Signal || !a.MayGrowSend() {
		t.Fatal("a large window does not show")
	}
	a.GrowSend(8 * a.SendBuffer)
	for range 3 { // the old bytes come back once
		at, n, more := a.Free()
		if at != 0 || n != 4*a.SendBuffer || more != 0 || a.MayGrowSend() {
			t.Errorf("%d bytes at %d, %d more", n, at, more)
		}
		a.HandleSent(w.Sent)
		if w.Sent.Bytes = 0; a.txFree != 8*a.SendBuffer {
			t.Errorf("%d bytes are free", a.txFree)
		}
	}
}

// One that has closed tells the peer, which may have shut its half at the same time.
func TestCloseBesideShutdown(t *testing.T) {
	a, _ := newEnds(configs[0])
	a.Close()
	a.HandleImmediate(wire.Message{Type: wire.Control, Value: wire.Shutdown}.Uint32())
	var c Control
	for a.PollControl(&c) {
		if m := wire.ParseMessage(c.Message); m.Type == wire.Control && m.Value == wire.Disconnect {
			a.HandleSent(c.Sent)
		}
	}
	if !c.Sent.Last || !a.Told() || a.State() != Disconnected {
		t.Errorf("%+v, %v", c, a.State())
	}
}

// A peer does not take back what it has granted, as bytes are copied for it.
func TestGrantsStay(t *testing.T) {
	for _, c := range configs {
		a, _ := newEnds(c)
		_, want, _ := a.Free()
		for _, granted := range []uint16{0, 1, c.ReceiveQueue - 1, 0xffff} {
			a.handle(wire.Message{Type: wire.Credit, Value: uint32(granted)})
			if _, n, _ := a.Free(); n != want {
				t.Errorf("%d bytes instead of %d may be sent after a grant of %d", n, want, granted)
			}
		}
	}
}

// A peer that writes more than it was given, or sends messages of no rsocket, fails the stream.
func TestProtocolErrors(t *testing.T) {
	for _, m := range []wire.Message{
		{Type: wire.Data, Value: configs[0].ReceiveBuffer/2 + 1}, {Type: wire.Data, Value: wire.MaxValue},
		{Type: wire.IOMap, Value: 0}, {Type: 1}, {Type: 2}, {Type: 3}, {Type: 5},
	} {
		a, _ := newEnds(configs[0])
		a.HandleImmediate(m.Uint32())
		if !errors.Is(a.Err(), ErrProtocol) || a.State() != Failed || !a.Readable() || a.MaySend() {
			t.Errorf("%v: %v, %v", m, a.State(), a.Err())
		}
	}
	for _, c := range []uint32{wire.KeepAlive, 3, wire.MaxValue} {
		a, _ := newEnds(configs[0])
		a.HandleImmediate(wire.Message{Type: wire.Control, Value: c}.Uint32())
		if a.State() != Connected {
			t.Errorf("control %d: %v", c, a.State())
		}
	}
}

// Queues may have up to 65,534 entries: rsocket(7).
func TestCreditsOfLongQueues(t *testing.T) {
	c := configs[0]
	c.ReceiveQueue = 0xfffe
	a, b := newEnds(c)
	if !a.Writable() || !b.Writable() {
		t.Error("may not send")
	}
}

// FuzzHostilePeer gives a stream any messages, beside any contents of its table.
func FuzzHostilePeer(f *testing.F) {
	for i := range configs { // which the first byte chooses
		f.Add([]byte{byte(i), 0, 0, 0, 0, 1, 0x80, 0, 0, 1, 2, 3, 4, 0xe0, 0, 0, 2})
		f.Add(append([]byte{byte(i)}, bytes.Repeat([]byte{0x80, 0xff, 0xff, 0xff}, 40)...))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		c := configs[int(input[0])%len(configs)]
		input = input[1:]
		var control Control
		s := &Stream{Config: c}
		table := make([]byte, TableSize)
		s.Start(wire.ConnData{Table: wire.Window{Length: 2}, Credits: 9}, wire.Window{}, table)
		for ; len(input) >= 4; input = input[4:] {
			copy(table, input)
			copy(table[12:], input) // lengths
			if s.BySend {
				s.HandleSend(input[:4])
			} else {
				s.HandleImmediate(binary.BigEndian.Uint32(input))
			}
			if s.MayGrowReceive() {
				s.GrowReceive(wire.Window{Length: largeTimes * c.ReceiveBuffer})
			}
			for s.PollControl(&control) {
				s.HandleSent(control.Sent)
			}
			at, n := s.Ready()
			if limit := c.ReceiveBuffer; at+n > limit && (at < limit || at+n > (1+largeTimes)*limit) {
				t.Fatalf("%d bytes at %d", n, at)
			}
			s.Consume(n)
			if s.MayGrowSend() {
				s.GrowSend(largeTimes * c.SendBuffer)
			}
			at, first, more := s.Free()
			if at+first > s.txSize || more > at {
				t.Fatalf("free %d at %d, %d more", first, at, more)
			}
			if s.MaySend() && first > 0 {
				if w := s.Send(first, false); w.Signal {
					s.HandleSent(w.Sent)
				}
			}
		}
	})
}
