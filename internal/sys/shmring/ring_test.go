// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// write publishes the bytes of iov as one entry, if there is room.
func (p *Producer) write(m *Message, iov ...[]byte) bool {
	b := p.Reserve()
	if b == nil {
		return false
	}
	n := 0
	for _, piece := range iov {
		n += copy(b[n:], piece)
	}
	p.Commit(n, m)
	return true
}

// pattern returns the bytes of entry i of a test, in one piece.
func pattern(i, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(i), 1))
	for at := range b {
		b[at] = byte(r.Uint32())
	}
	return b
}

// Entries of all sizes come out as they went in, many rounds of the ring, with
// as many waiting as fit.
func TestOrderAndBytes(t *testing.T) {
	p, c := NewPair()
	r := rand.New(rand.NewPCG(7, 7))
	var sizes []int
	in, out := 0, 0
	for out < 2000 {
		for in < 2000 {
			n := 1 + r.IntN(MaxBytes)
			if r.IntN(2) == 0 {
				n = 1 + r.IntN(100)
			}
			b := pattern(in, n)
			cut := r.IntN(n)
			m := Message{Segment: (n+MaxPackets-1)/MaxPackets + r.IntN(n), TOS: uint8(in), Tag: uint32(in * 7)}
			if m.Segment > n {
				m.Segment = n
			}
			if !p.write(&m, b[:cut], b[cut:]) {
				break
			}
			sizes = append(sizes, n, m.Segment)
			in++
		}
		if in == out {
			t.Fatal("an empty ring took nothing")
		}
		for k := r.IntN(in-out) + 1; k > 0; k-- {
			var m Message
			if ok, err := c.Next(&m); !ok || err != nil {
				t.Fatalf("entry %d: %v, %v", out, ok, err)
			}
			if n := sizes[2*out]; !bytes.Equal(m.Data, pattern(out, n)) || m.Segment != sizes[2*out+1] || m.TOS != uint8(out) || m.Tag != uint32(out*7) {
				t.Fatalf("entry %d of %d bytes differs", out, n)
			}
			c.Advance()
			out++
		}
	}
	if in == out && c.Waiting() {
		t.Error("something waits in an empty ring")
	}
}

// A payload that looks like an entry is not taken for one in the next round.
func TestPayloadIsNoEntry(t *testing.T) {
	p, c := NewPair()
	b := make([]byte, 4096)
	for at := range len(b) / 8 {
		binary.NativeEndian.PutUint64(b[8*at:], first(p.next+dataBytes, 100))
	}
	var m Message
	for range 2 * dataBytes / len(b) {
		if !p.write(&Message{}, b) {
			t.Fatal("no room")
		}
		if ok, err := c.Next(&m); !ok || err != nil || len(m.Data) != len(b) {
			t.Fatal(ok, err)
		}
		c.Advance()
		if ok, err := c.Next(&m); ok || err != nil {
			t.Fatalf("an empty ring has %d bytes (%v)", len(m.Data), err)
		}
		for at := range len(b) / 8 {
			binary.NativeEndian.PutUint64(b[8*at:], first(p.next+dataBytes, 100))
		}
	}
}

// A ring takes entries until there may be no room for the longest, wherever it
// stands, and none of them is lost.
func TestRoom(t *testing.T) {
	p, c := NewPair()
	longest := make([]byte, MaxBytes)
	var m Message
	for round := range 200 {
		in, out := 0, 0
		for n := MaxBytes; p.write(&Message{}, longest[:n]); n = 1 + round*100 {
			in++
		}
		if p.free(dataBytes) || in < dataBytes/maxEntry-2 {
			t.Fatalf("a full ring has %d entries", in)
		}
		for ; ; out++ {
			ok, err := c.Next(&m)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			c.Advance()
		}
		if in != out {
			t.Fatalf("%d of %d entries came", out, in)
		}
	}
}

// Small entries stay in the first part of the ring while the consumer keeps up, and use all of it
// when it does not. None is lost or changed where the two take turns.
func TestSmallEntriesStayAtTheStart(t *testing.T) {
	p, c := NewPair()
	r := rand.New(rand.NewPCG(3, 3))
	var m Message
	in, out, furthest := 0, 0, 0
	take := func() {
		t.Helper()
		if ok, err := c.Next(&m); !ok || err != nil || !bytes.Equal(m.Data, pattern(out, 20)) {
			t.Fatalf("entry %d: %v, %v", out, ok, err)
		}
		c.Advance()
		out++
	}
	for range 4 * dataBytes / lineBytes {
		if !p.write(&Message{}, pattern(in, 20)) {
			t.Fatal("no room")
		}
		in++
		furthest = max(furthest, int(p.next%dataBytes))
		for in-out > r.IntN(8) {
			take()
		}
	}
	if most := restartBytes + lineBytes; furthest > most {
		t.Errorf("an entry ends at %d, want at most %d", furthest, most)
	}
	before := in
	for p.write(&Message{}, pattern(in, 20)) {
		in++
	}
	if got, want := (in-before)*lineBytes, dataBytes-2*restartBytes; got < want {
		t.Errorf("a ring that is not read takes %d bytes, want %d", got, want)
	}
	for out < in {
		take()
	}
}

// A consumer that arms and finds nothing is woken by the next entry, in either order: a consumer
// that sleeps through one would end this test.
func TestNoWakeupIsLost(t *testing.T) {
	p, c := NewPair()
	const entries = 100000
	wake := make(chan struct{}, 1)
	go func() {
		var b [8]byte
		for i := range entries {
			binary.NativeEndian.PutUint64(b[:], uint64(i))
			for !p.write(&Message{}, b[:]) {
				runtime.Gosched()
			}
			if p.MustWake() {
				wake <- struct{}{}
			}
			for i%64 == 0 && c.Waiting() { // let it go to sleep often
				runtime.Gosched()
			}
		}
	}()
	deadline := time.After(60 * time.Second)
	var m Message
	for i := 0; i < entries; {
		ok, err := c.Next(&m)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if got := binary.NativeEndian.Uint64(m.Data); got != uint64(i) {
				t.Fatalf("entry %d comes as %d", got, i)
			}
			c.Advance()
			i++
			continue
		}
		if c.Arm() {
			select {
			case <-wake:
			case <-deadline:
				t.Fatalf("slept through entry %d", i)
			}
		}
	}
}

func TestWriteAllocatesNothing(t *testing.T) {
	p, c := NewPair()
	small, large := make([]byte, 20), make([]byte, 4096)
	var m Message
	if n := testing.AllocsPerRun(1000, func() {
		p.write(&m, small, large)
		c.Next(&m)
		c.Advance()
	}); n != 0 {
		t.Errorf("%v allocations an entry", n)
	}
}

// FuzzHostileProducer lets the other side write anything anywhere: the consumer
// stays within the ring, ends, and says ErrCorrupt at most.
func FuzzHostileProducer(f *testing.F) {
	marks := make([]byte, 6) // and all of the second word but its first bytes
	f.Add(append([]byte{0, 0, 255, 255, 255, 255, 0, 0, 0, 128, 0, 0}, marks...))
	f.Add(append([]byte{0, 0, 1, 0, 0, 0, 0, 0, 0, 128, 255, 255}, marks...))
	f.Add(append([]byte{0, 16, 0, 0, 1, 0, 0, 0, 0, 128, 0, 0}, marks...))
	f.Add([]byte{0, 0, 33, 0, 0, 0, 0, 0, 0, 128, 1, 0, 0, 2, 0, 0, 0, 0}) // prefixed
	f.Add([]byte{0, 0, 32, 0, 0, 0, 0, 0, 0, 128, 1, 0, 0, 2, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 200, 0, 0, 0, 0, 0, 0, 128, 1, 0, 0, 2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		memory := make([]uint64, totalBytes/8)
		b := bytesOf(memory)
		c := newConsumer(b)
		var m Message
		for len(script) >= 18 {
			line := int(binary.LittleEndian.Uint16(script)) % (dataBytes / lineBytes)
			copy(b[dataAt+line*lineBytes:], script[2:18])
			script = script[18:]
			for range dataBytes / lineBytes {
				ok, err := c.Next(&m)
				if err != nil && err != ErrCorrupt {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if len(m.Data) == 0 || len(m.Data) > MaxBytes || m.Segment < 1 || m.Segment*MaxPackets < len(m.Data) {
					t.Fatalf("%d bytes in packets of %d", len(m.Data), m.Segment)
				}
				if m.Prefixed && len(m.Prefix) != PrefixBytes || !m.Prefixed && m.Prefix != nil {
					t.Fatalf("a prefix of %d bytes", len(m.Prefix))
				}
				_ = m.Data[len(m.Data)-1]
				c.Advance()
			}
			c.Waiting()
			c.Arm()
		}
	})
}

// FuzzHostileConsumer lets the other side say anything of how far it has read:
// the producer never takes more room than there is, and stops.
func FuzzHostileConsumer(f *testing.F) {
	f.Add(uint64(0), uint16(100))
	f.Add(uint64(1)<<63, uint16(65535))
	f.Add(uint64(64), uint16(1))
	f.Fuzz(func(t *testing.T, head uint64, n uint16) {
		memory := make([]uint64, totalBytes/8)
		p := newProducer(bytesOf(memory))
		b := make([]byte, n)
		for range 3000 {
			if !p.write(&Message{}, b) {
				p.head.Store(head)
				if !p.write(&Message{}, b) {
					break
				}
			}
			if p.next-p.seen > dataBytes {
				t.Fatalf("at %d, and the consumer at %d", p.next, p.seen)
			}
		}
	})
}

func BenchmarkSmallEntry(b *testing.B) {
	p, c := NewPair()
	small := make([]byte, 20)
	var m Message
	for b.Loop() {
		p.write(&m, small)
		p.MustWake()
		c.Next(&m)
		c.Advance()
	}
}

// BenchmarkBurst is one copy in; the consumer leaves the bytes where they are.
func BenchmarkBurst(b *testing.B) {
	p, c := NewPair()
	burst := make([]byte, 32<<10)
	b.SetBytes(int64(len(burst)))
	var m Message
	for b.Loop() {
		p.write(&m, burst)
		c.Next(&m)
		c.Advance()
	}
}

// A question is answered when everything before it is done with, and asked once for all that wait
// for the same entries.
func TestQuestion(t *testing.T) {
	tx, rx := NewPair()
	next := func(question bool) {
		t.Helper()
		var m Message
		if ok, err := rx.Next(&m); !ok || err != nil || m.Question != question {
			t.Fatalf("%v, %v, question %v", ok, err, m.Question)
		}
		rx.Advance()
	}
	tx.write(&Message{}, []byte("first"))
	one := tx.Ask()
	if again := tx.Ask(); one == 0 || again != one || tx.Answered(one) {
		t.Fatalf("questions %d and %d", one, again)
	}
	tx.write(&Message{}, []byte("second"))
	two := tx.Ask()
	if two == one {
		t.Fatal("a question of before stands for what was written after it")
	}
	if next(false); rx.Asked() {
		t.Error("a question came early")
	}
	if next(true); !rx.Asked() || tx.Answered(one) {
		t.Error("a question did not come, or was answered by being read")
	}
	rx.Answer()
	if rx.Asked() || !tx.Answered(one) || tx.Answered(two) {
		t.Error("not the first question was answered")
	}
	next(false)
	next(true)
	rx.Answer()
	if !tx.Answered(two) {
		t.Error("the second question was not answered")
	}
	for tx.write(&Message{}, make([]byte, MaxBytes)) {
	}
	if tx.Ask() != 0 {
		t.Error("a full ring takes a question")
	}
}

// A prefix comes out before the packets, and counts in none of them.
func TestPrefix(t *testing.T) {
	tx, rx := NewPair()
	prefix, packets := pattern(1, PrefixBytes), pattern(2, 64*MaxPackets)
	tx.write(&Message{Segment: 64, Tag: 9, Prefixed: true}, prefix, packets)
	var m Message
	if ok, err := rx.Next(&m); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !m.Prefixed || !bytes.Equal(m.Prefix, prefix) || !bytes.Equal(m.Data, packets) || m.Segment != 64 || m.Tag != 9 {
		t.Errorf("%+v", m)
	}
	rx.Advance()
	tx.write(&Message{}, packets)
	if ok, err := rx.Next(&m); !ok || err != nil || m.Prefixed || m.Prefix != nil {
		t.Errorf("%v, %v, %+v", ok, err, m)
	}
	rx.Advance()
	tx.write(&Message{Prefixed: true}, prefix)
	if ok, err := rx.Next(&m); ok || err != ErrCorrupt {
		t.Errorf("a prefix without a packet: %v, %v", ok, err)
	}
}

// Threads that are about to sleep look at a ring beside the one that reads it. The race detector
// accepts that.
func TestWaitingBesideTheConsumer(t *testing.T) {
	p, c := NewPair()
	b := make([]byte, 3000)
	var looking sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		looking.Go(func() {
			for !done.Load() {
				c.Waiting()
			}
		})
	}
	var m Message
	for i := range 20 * dataBytes / len(b) { // their sizes differ, so that payloads come to lie where entries began
		if !p.write(&Message{}, b[i%100*8:]) {
			t.Fatal("no room")
		}
		if ok, err := c.Next(&m); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c.Advance()
	}
	done.Store(true)
	looking.Wait()
}
