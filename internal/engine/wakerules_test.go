// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// explore returns the number of states, and one from which not all can be done; nil if there is
// none.
func (s *setting) explore() (states int, lost *world) {
	begin := world{left: uint8(len(s.to)), polls: s.polls}
	index := map[world]int32{begin: 0}
	all := []world{begin}
	var from, to []int32 // of each step
	var room []world
	for at := 0; at < len(all); at++ {
		w := all[at]
		room = s.next(room[:0], &w)
		if len(room) == 0 && !s.done(&w) {
			return len(all), &w
		}
		for _, n := range room {
			k, known := index[n]
			if !known {
				k = int32(len(all))
				index[n] = k
				all = append(all, n)
			}
			from, to = append(from, int32(at)), append(to, k)
		}
	}
	good := make([]bool, len(all)) // all can be done from here
	for i := range all {
		good[i] = s.done(&all[i])
	}
	for changed := true; changed; {
		changed = false
		for i := len(to) - 1; i >= 0; i-- {
			if good[to[i]] && !good[from[i]] {
				good[from[i]], changed = true, true
			}
		}
	}
	if i := slices.Index(good, false); i >= 0 {
		return len(all), &all[i]
	}
	return len(all), nil
}

// settings follow the rules. Between them they have each thread beside the background goroutine,
// and beside another thread.
var settings = map[string]setting{
	"one blocks":               {threads: [2]kind{blocks}, to: []uint8{0, nobody}},
	"one watches":              {threads: [2]kind{watches}, to: []uint8{0, nobody}},
	"one is served":            {threads: [2]kind{served}, to: []uint8{0, nobody}},
	"one blocks, one polls":    {threads: [2]kind{blocks}, to: []uint8{0, nobody}, polls: 1, coarse: true},
	"two block":                {threads: [2]kind{blocks, blocks}, to: []uint8{0, 1}, alone: true},
	"one watches, one blocks":  {threads: [2]kind{watches, blocks}, to: []uint8{1, 1}, alone: true},
	"one hides an event":       {threads: [2]kind{hides}, to: []uint8{0, nobody}},
	"one hides, one blocks":    {threads: [2]kind{hides, blocks}, to: []uint8{0, 0}, alone: true, late: true},
	"one drains":               {threads: [2]kind{hides}, to: []uint8{0, 0}, drains: true},
	"one drains, one blocks":   {threads: [2]kind{hides, blocks}, to: []uint8{0, 0}, alone: true, late: true, drains: true},
	"one naps":                 {threads: [2]kind{naps}, to: []uint8{0, nobody}},
	"one naps, one polls":      {threads: [2]kind{naps}, to: []uint8{0, nobody}, polls: 1, coarse: true},
	"one blocks, one naps":     {threads: [2]kind{blocks, naps}, to: []uint8{1, 0, 1}, alone: true},
	"NTB, one naps":            {threads: [2]kind{naps}, to: []uint8{0, nobody}, ntb: true},
	"NTB":                      {threads: [2]kind{blocks}, to: []uint8{0, nobody}, ntb: true},
	"NTB without a descriptor": {threads: [2]kind{blocks}, to: []uint8{0, nobody}, ntb: true, noFD: true},
}

func TestNoWakeUpIsLost(t *testing.T) {
	for name, s := range settings {
		t.Run(name, func(t *testing.T) {
			states, lost := s.explore()
			t.Logf("%d states", states)
			if lost != nil {
				t.Errorf("not all can be done from %+v", *lost)
			}
		})
	}
}

// Each rule is needed: without it the model loses a wake-up.
func TestEachRuleOfTheModelIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		without func(*setting)
	}{
		"a thread arms before it looks":                 {"one blocks", func(s *setting) { s.lookFirst = true }},
		"the peer writes before it looks":               {"one blocks", func(s *setting) { s.unannounced = true }},
		"Collect reads the bell before the rings":       {"one blocks", func(s *setting) { s.readFirst = true }},
		"Collect arms again for other threads":          {"two block", func(s *setting) { s.noRearm = true }},
		"Collect ends the goroutine's sleep":            {"one blocks", func(s *setting) { s.noAttend = true }},
		"… whatever that waits for":                     {"one is served", func(s *setting) { s.keepAway = true }},
		"… after it has read the bell":                  {"one blocks", func(s *setting) { s.attendEarly = true }},
		"no thread takes arming back":                   {"one blocks, one polls", func(s *setting) { s.disarm = true }},
		"the eventfd is read before woken is cleared":   {"two block", func(s *setting) { s.clearFirst = true }},
		"the goroutine looks for a thread that read":    {"one blocks", func(s *setting) { s.ignoreCollects = true }},
		"the goroutine listens where no thread sleeps":  {"one blocks", func(s *setting) { s.stayDeaf = true }},
		"BeginWait that fails is a read":                {"one blocks", func(s *setting) { s.leaveQuietly = true }},
		"the alarm shows a hidden event":                {"one hides an event", func(s *setting) { s.noAlarm = true }},
		"the next completion shows a hidden event":      {"one hides, one blocks", func(s *setting) { s.noAwait = true }},
		"an event is hidden before the next is awaited": {"one hides, one blocks", func(s *setting) { s.awaitFirst = true }},
		"the alarm shows an event that came early":      {"one drains", func(s *setting) { s.noAlarm = true }},
		"a thread that drained awaits the next one":     {"one drains, one blocks", func(s *setting) { s.noAwait = true }},
		"only the goroutine reads a link's doorbell":    {"NTB", func(s *setting) { s.stray = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings[c.in]
			c.without(&s)
			states, lost := s.explore()
			t.Logf("%d states, lost in %+v", states, lost)
			if lost == nil {
				t.Error("no wake-up is lost")
			}
		})
	}
}

// The steps of the model are in the code, in their order.
func TestModelFollowsTheCode(t *testing.T) {
	const poller, ring, link = "../sys/udp/poller_linux.go", "../sys/shmring/", "../transport/ntb/link.go"
	for _, c := range []struct {
		file, function string
		steps          []string
	}{
		{ring + "producer.go", "(p *Producer) MustWake()", []string{"p.armed.Swap(0)"}},
		{ring + "consumer.go", "(c *Consumer) Arm()", []string{"c.armed.Store(1)", "c.Waiting()"}},
		{poller, "(w *waiter) wake()", []string{"w.woken.CompareAndSwap(false, true)", "unix.Write(w.event"}},
		{poller, "(w *waiter) silence()", []string{"drain(w.event", "w.woken.Store(false)"}},
		{link, "(x *peerLink) arm(", []string{"ch.Sleep()", "x.flush(now)", "ch.Quiet()"}},
		{"arrival.go", "(a *arrival) silence()", []string{"a.mayRing.Swap(false)", "a.set.Silence()"}},
		{"arrival.go", "(e *Engine) RingBell()", []string{"mayRing.Store(true)", "set.Wake()"}},
		{"arrival.go", "(e *Engine) armRings()", []string{"mayRing.Store(true)", "r.Arm()"}},
		{"arrival.go", "(e *Engine) readyToSleep(", []string{"e.bg.kick()", "e.armRings()"}},
		{"arrival.go", "(e *Engine) Collect(", []string{"a.collects.Add(1)", "a.silence()", "e.bg.attended()",
			"r.TryPoll(true)", "in.TryPoll(true)", "a.asleep() && !e.armRings()", "e.RingBell()"}},
		{"arrival.go", "(e *Engine) BeginWait()", []string{"waiters.Add(1)", "e.readyToSleep(", "e.EndWait()"}},
		{"arrival.go", "(e *Engine) EndWait()", []string{"waiters.Add(-1)", "collects.Add(1)", "e.bg.attended()"}},
		{"arrival.go", "(e *Engine) BeginNap()", []string{"waiters.Add(1)", "e.armRings()", "e.EndWait()"}},
		{"arrival.go", "(e *Engine) EndNap()", []string{"e.EndWait()", "e.Collect("}},
		{"arrival.go", "(e *Engine) BeginWatch()", []string{"watchers.Add(1)", "e.readyToSleep(", "e.RingBell()"}},
		{"arrival.go", "(e *Engine) TryWatch(", []string{"watchers.Add(1)", "e.readyToSleep(", "e.EndWatch()"}},
		{"arrival.go", "(e *Engine) EndWatch()", []string{"watchers.Add(-1)", "collects.Add(1)", "e.bg.attended()"}},
		{"../../cabi/engine/cq.go", "vb_nap_begin(", []string{"engine.BeginNap()"}},
		{"../../cabi/engine/cq.go", "vb_nap_end(", []string{"engine.EndNap()"}},
		{"readtoken.go", "(t *ReadToken) Sleep(", []string{"asleep.Store(true)", "eng.BeginWait()", "stay()",
			"poller.Wait(", "eng.EndWait()"}},
		{"../core/compchannel.go", "(c *CompChannel) readUntilEvent(", []string{"a.Collect(waits)", "c.take()", "a.Sleep("}},
		{"../queue/cq.go", "(q *CQ) Push(", []string{"awaited := q.awaited", "q.announce(", "q.OnNext()"}},
		{"../../cabi/engine/cq.go", "(o *cqObject) read(", []string{"c.collectLocked(waits)", "o.verbs.Len()",
			"e.hideLocked(since)", "o.verbs.AwaitNext(most)", "e.unhideLocked()", "c.showLocked()"}},
		{"../../cabi/engine/cq.go", "(o *cqObject) sleep(", []string{"o.event.polled(false)",
			"o.read(most, true)", "c.spin.Wait(", "c.tryWatch("}},
		{"../../cabi/engine/channel.go", "vb_channel_take(", []string{"c.take(waits)", "c.spin.Wait(",
			"c.engine.BeginWait()"}},
		{"../../cabi/engine/channel.go", "(e *cqEvent) put()", []string{"e.unhideLocked()",
			"c.drains.Load() == e", "e.hideLocked(0)", "c.showLocked()"}},
		{"../../cabi/engine/channel.go", "(c *channel) showOld(", []string{"e.unhideLocked()", "c.showLocked()"}},
		{"../core/compchannel.go", "(c *CompChannel) put(", []string{"append(c.events, q)", "c.signal()"}},
		{"background.go", "(g *background) attended()", []string{"g.away.Swap(false)", "g.poller.Wake()"}},
		{"background.go", "(g *background) run()", []string{"g.kicked.Swap(false)", "a.collects.Load()",
			"if !kicked && attended {", "g.leaveToReaders(now)", "g.serve()", "g.wait(now, kicked)",
			"watched := !kicked && a.asleep()", "g.leaveToSleepers()", "a.silence()", "g.read()", "g.absent = watched && k > 0"}},
		{"background.go", "(g *background) leaveToReaders(", []string{"g.sleepUntil("}},
		{"background.go", "(g *background) leaveToSleepers()", []string{"g.sleepUntil(",
			"collects.Load() != g.collected || !g.readable()"}},
		{"background.go", "(g *background) wait(", []string{"arrival.waiters.Load()", "g.listen(!deep)",
			"g.away.Store(true)", "armRings()", "collects.Load() != g.collected", "s.Arm(now)", "g.look(d)"}},
	} {
		source, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(source), "\nfunc "+c.function)
		rest, _, _ = strings.Cut(rest, "\n}\n")
		for _, step := range c.steps {
			if ok {
				_, rest, ok = strings.Cut(rest, step)
			}
			if !ok {
				t.Errorf("%s: %s has no %q there: does the model hold?", c.file, c.function, step)
				break
			}
		}
	}
}
