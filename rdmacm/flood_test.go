// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
)

// flood is a gsi that always has more MADs, until none are left.
type flood struct {
	*process
	left, reads atomic.Int32
}

func (f *flood) WatchMADs(int) error { return nil }
func (f *flood) UnwatchMADs(int)     {}

func (f *flood) ReadMADs() (more bool) {
	if f.left.Load() <= 0 {
		return false
	}
	f.reads.Add(1)
	return f.left.Add(-1) > 0
}

// observer is a server that counts the calls of serve.
type observer struct {
	server
	calls atomic.Int32
}

func (o *observer) serve(now monotime.Time) (next monotime.Time, busy bool) {
	o.calls.Add(1)
	return o.server.serve(now)
}

// TestManagerServesDuringAFlood: the protocols are served after each turn at the MADs. A thread
// that waits for events has one turn, and the goroutine takes the others.
func TestManagerServesDuringAFlood(t *testing.T) {
	const turns = 100
	p := &process{f: newFabric(t), slot: 1}
	b, err := engine.NewBell()
	check(t, err)
	defer b.Close()
	source := &flood{process: p}
	m := newManager(source, p.f.linkSlot, ib.GUID(1), b)
	p.manager = m
	o := &observer{server: m.trp}
	m.servers[TRP] = o
	m.join()
	source.left.Store(turns)
	m.take()
	if source.reads.Load() != 1 || o.calls.Load() == 0 {
		t.Errorf("the thread has read %d times, and served %d times", source.reads.Load(),
			o.calls.Load())
	}
	m.start()
	for deadline := time.Now().Add(20 * time.Second); source.left.Load() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d turns are left", source.left.Load())
		}
	}
	source.left.Store(2)
	m.take() // the goroutine may sleep
	for deadline := time.Now().Add(20 * time.Second); source.left.Load() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("nobody reads what the thread has left")
		}
	}
	m.leave()
	<-m.done
	if reads, calls := source.reads.Load(), o.calls.Load(); calls < reads {
		t.Errorf("served %d times, MADs were read %d times", calls, reads)
	}
}
