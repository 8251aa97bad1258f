// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Ahead has the entries that Next returns next, and takes none of them.
func TestAhead(t *testing.T) {
	p, c := NewPair()
	r := rand.New(rand.NewPCG(3, 1))
	var known [16][]byte
	short := 0 // times that it knew fewer than were there
	for in, out := 0, 0; out < 600; {
		for range 1 + r.IntN(40) {
			if !p.write(&Message{Segment: 4096}, binary.BigEndian.AppendUint32(nil, uint32(in)), make([]byte, r.IntN(20000))) {
				break
			}
			in++
		}
		most := 1 + r.IntN(len(known))
		n := c.Ahead(known[:most])
		if n < min(most, in-out) {
			short++
		}
		if again := c.Ahead(known[:most]); again != n {
			t.Fatalf("%d entries ahead, then %d", n, again)
		}
		for i := range n {
			var m Message
			if ok, err := c.Next(&m); !ok || err != nil || &m.Data[0] != &known[i][0] || len(m.Data) != len(known[i]) ||
				binary.BigEndian.Uint32(m.Data) != uint32(out) {
				t.Fatalf("entry %d is not the one that Ahead returned: %v, %v", out, ok, err)
			}
			c.Advance()
			out++
		}
		if n == 0 { // at the end of the ring Next goes on at the start
			var m Message
			if ok, err := c.Next(&m); !ok || err != nil {
				t.Fatalf("%d of %d: Ahead has nothing: %v, %v", out, in, ok, err)
			}
			c.Advance()
			out++
		}
	}
	if short == 0 || short > 100 {
		t.Errorf("%d times fewer entries than were there: want some, at the ends of the ring", short)
	}
}

// Ahead ends before questions, entries with addresses and words that are no entry.
func TestAheadEnds(t *testing.T) {
	var known [16][]byte
	for name, write := range map[string]func(*Producer){
		"nothing":       func(*Producer) {},
		"question":      func(p *Producer) { p.write(&Message{Segment: 1, Question: true}, []byte{1}) },
		"addresses":     func(p *Producer) { p.write(&Message{Segment: 9, Prefixed: true}, make([]byte, PrefixBytes+9)) },
		"another entry": func(p *Producer) { p.write(&Message{Segment: 4}, make([]byte, 4)) },
	} {
		p, c := NewPair()
		p.write(&Message{Segment: 8}, make([]byte, 8))
		write(p)
		want := 1
		if name == "another entry" {
			want = 2
		}
		if n := c.Ahead(known[:]); n != want {
			t.Errorf("%s behind an entry: %d ahead, want %d", name, n, want)
		}
	}
	p, c := NewPair()
	p.write(&Message{Segment: 8}, make([]byte, 8))
	word(c.data, 0).Store(first(0, MaxBytes+1))
	if n := c.Ahead(known[:]); n != 0 {
		t.Errorf("%d entries ahead where the producer has written nonsense", n)
	}
	if n := testing.AllocsPerRun(10, func() { c.Ahead(known[:]) }); n != 0 {
		t.Errorf("Ahead allocates %v times", n)
	}
}
