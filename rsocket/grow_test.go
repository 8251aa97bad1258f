// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"verbena/internal/testkit/rig"
)

// pass sends bytes through a stream by Writes of a size.
func pass(t *testing.T, a, b *Conn, size int, all []byte) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for rest := all; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if _, err := a.Write(rest[:min(size, len(rest))]); err != nil {
				t.Error(err)
			}
		}
	})
	got := make([]byte, len(all))
	_, err := io.ReadFull(b, got)
	check(t, err)
	wg.Wait()
	if !bytes.Equal(got, all) {
		t.Error("other bytes arrive")
	}
}

// A stream gets large buffers for long messages, one way and then the other, and gives them back.
func TestLongMessagesGetLargeBuffers(t *testing.T) {
	all := someBytes(5*largeSize + 3)
	eachKind(t, func(t *testing.T, network string) {
		used := largeInUse.Load()
		x, y, stop, err := pipe(network)
		check(t, err)
		a, b := x.(*Conn), y.(*Conn)
		pass(t, a, b, 1000, all[:4*bufferSize])
		if a.large != nil || b.large != nil {
			t.Error("a stream of short messages has a large buffer")
		}
		for _, c := range [][2]*Conn{{a, b}, {b, a}} {
			pass(t, c[0], c[1], 100_000, all)
			if len(c[0].sbuf) != largeSize || len(c[1].large) != largeSize {
				t.Errorf("buffers of %d and %d bytes", len(c[0].sbuf), len(c[1].large))
			}
			pass(t, c[0], c[1], 7, all[:1000])
		}
		stop()
		rig.Until(t, "the buffers are given back", func() bool {
			return largeInUse.Load() <= used // streams of other tests may end meanwhile
		})
	})
}

// stuckWriter keeps the bytes of the first Write from there on until it is told to go on.
type stuckWriter struct {
	has  chan []byte
	goOn chan struct{}
}

func (w stuckWriter) Write(b []byte) (int, error) {
	w.has <- b
	<-w.goOn
	return len(b), nil
}

// A Writer that WriteTo has given bytes of a large buffer keeps them when the stream is closed.
func TestWriterKeepsItsBytes(t *testing.T) {
	used := largeInUse.Load()
	a, b := ends(t, "roce")
	all := someBytes(largeSize)
	pass(t, a, b, 100_000, all)
	_, err := a.Write(all[:1000])
	check(t, err)
	w, ended := stuckWriter{make(chan []byte), make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.WriteTo(w) // fails, as the stream is closed
	}()
	got := <-w.has
	if &got[:cap(got)][cap(got)-1] != &b.large[largeSize-1] {
		t.Fatal("they are not in the large buffer")
	}
	check(t, b.Close())
	if !bytes.Equal(got, all[:1000]) {
		t.Error("the bytes are others after Close")
	}
	check(t, a.Close())
	close(w.goOn)
	<-ended
	rig.Until(t, "the buffers are given back", func() bool { return largeInUse.Load() <= used })
}

// A stream that gets no large buffer goes on with small ones.
func TestNoMemoryForLargeBuffers(t *testing.T) {
	largeInUse.Add(largeMemory)
	defer largeInUse.Add(-largeMemory)
	a, b := ends(t, "roce")
	pass(t, a, b, 100_000, someBytes(largeSize))
	if len(a.sbuf) != bufferSize || b.large != nil {
		t.Error("a buffer is large")
	}
}
