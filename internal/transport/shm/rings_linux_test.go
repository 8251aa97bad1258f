// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/sys/shmring"
)

// noPackets is a reader of rings that stay empty.
type noPackets struct{}

func (noPackets) Burst(monotime.Time, *shmring.Message, bool) {}
func (noPackets) EndTurn(monotime.Time, bool)                 {}
func (noPackets) Ahead([][]byte)                              {}

// component is an engine's only one.
type component struct {
	engine.BaseComponent
	rings *Rings
}

func (c component) Stop() { c.rings.Stop() }

// openAlone returns the rings of an engine that has no other component.
func openAlone(t testing.TB, dir string, slot int) (l *Rings) {
	t.Helper()
	make := func(e *engine.Engine) (engine.Component, error) {
		l = Open(e, Config{
			Slot:      slot,
			Path:      func(slot int) string { return filepath.Join(dir, strconv.Itoa(slot)) },
			NewReader: func(int, *atomic.Uint64) Reader { return noPackets{} },
			OnEnd:     func(*Out) {},
		})
		return component{rings: l}, nil
	}
	e, err := engine.New(engine.Options{Components: []func(*engine.Engine) (engine.Component, error){make}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if !l.Shared() {
		t.Fatal("the rings lead to no other process")
	}
	return l
}

// A queue pair that pumps must not wait for To, which waits for another process.
func TestOfferOfALoopDoesNotWait(t *testing.T) {
	l := openAlone(t, t.TempDir(), 1)
	lane := l.eng.FirstLane()
	l.dialMu.Lock()
	l.OfferLoop(lane)
	if l.LoopMade(lane) != nil {
		t.Error("a ring was made while another was")
	}
	l.dialMu.Unlock()
	if l.OfferLoop(lane); l.LoopMade(lane) == nil {
		t.Error("no ring was made")
	}
}

// A poll that may not answer a question leaves that to the next one, which finds no packet.
func TestPollAnswersAnEarlierQuestion(t *testing.T) {
	l := openAlone(t, t.TempDir(), 1)
	l.eng.Probe().StopBackground() // it reads all rings
	lane := l.eng.FirstLane()
	o := l.Loop(lane)
	question, _, _ := o.Ask(0)
	l.BeginWake()
	lane.Poll()
	if _, answered, _ := o.Ask(question); answered {
		t.Fatal("answered while a connection has something to send")
	}
	l.EndWake()
	lane.Poll()
	if _, answered, _ := o.Ask(question); !answered {
		t.Error("not answered")
	}
	if r := (*l.rings.Load())[0]; !r.Idle() {
		t.Error("each poll reads an empty ring")
	}
}

// A process may refuse a ring that Offer has made. A connected queue pair would lose its first
// packets in it, so To waits for the answer.
func TestRingOfOfferIsAwaited(t *testing.T) {
	dir := t.TempDir()
	l := openAlone(t, dir, 1)
	// The other process answers when its listener is served.
	self, err := shmring.NetNamespace(2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := shmring.Listen(filepath.Join(dir, "2"), self, l.eng.BellFD(), func(in *shmring.In) {
		t.Cleanup(in.Close)
	}, func(any) {})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l.Offer(2)
	if o, dial := l.Taken(2); o != nil || dial {
		t.Fatalf("the ring is taken: %v, or there is none: %v", o != nil, dial)
	}
	made := make(chan *Out, 1)
	go func() { made <- l.to(2, 60*monotime.Second) }()
	for l.dialMu.TryLock() { // until it waits
		l.dialMu.Unlock()
		if len(made) > 0 {
			t.Fatalf("it returned before the answer, a ring: %v", <-made != nil)
		}
		runtime.Gosched()
	}
	for len(made) == 0 {
		other.Serve()
		runtime.Gosched()
	}
	if o := <-made; o == nil || !o.accepted() {
		t.Error("the ring is not taken")
	}
}

// Many queue pairs may go to RTR towards a process that is held up. They wait for it once.
func TestQueuePairsWaitForAProcessOnce(t *testing.T) {
	dir := t.TempDir()
	l := openAlone(t, dir, 1)
	self, err := shmring.NetNamespace(2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := shmring.Listen(filepath.Join(dir, "2"), self, l.eng.BellFD(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() // it answers nobody
	const patience = 20 * monotime.Millisecond
	begin := monotime.Now()
	first := l.to(2, patience)
	if d := monotime.Now().Sub(begin); first == nil || d < patience {
		t.Fatalf("a ring: %v, after %v", first != nil, d)
	}
	least := monotime.Duration(patience)
	for range 50 { // this thread may be held up in some
		begin := monotime.Now()
		if l.to(2, patience) != first {
			t.Fatal("another ring")
		}
		least = min(least, monotime.Now().Sub(begin))
	}
	if least >= patience {
		t.Errorf("each queue pair waits %v or longer", least)
	}
}
