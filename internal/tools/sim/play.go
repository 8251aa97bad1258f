// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"context"
	"slices"

	"verbena/internal/flows"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// longest bounds a run whose end is that of its flows.
const longest = 60 * monotime.Second

// The samples of a run have one interval, which doubles when there are too many.
const (
	firstInterval = 10 * monotime.Microsecond
	maxSamples    = 240
)

// samples are the time series of a run.
type samples struct {
	interval monotime.Duration
	list     []sample
	received []int64 // by group, until the sample before
	counted  totals  // likewise
}

// sample has the events of an interval, and the state at its end.
type sample struct {
	groups  []groupSample
	queue   int // bytes in the longest queue
	dropped int // packets, by full buffers and by chance
	marked  int
}

type groupSample struct {
	bytes  int64 // of payload that has arrived
	window int   // bytes, on average of the flows that are under way
	trip   monotime.Duration
}

// totals are the counts of all links.
type totals struct{ dropped, marked int }

// checkEvery is after how many events a run looks whether it is to end.
const checkEvery = 10_000

// play runs a scenario. The function is called after each sample.
func (s *scenario) play(ctx context.Context, sampled func(monotime.Duration)) (*result, error) {
	end := monotime.Time(s.run)
	if s.run == 0 {
		end = monotime.Time(longest)
	}
	net := s.world.Net
	r := &result{scenario: s, samples: samples{interval: firstInterval,
		received: make([]int64, len(s.groups))}}
	r.warmedUp(s)
	done := false
	for !done && net.Now() < end {
		before, warm := net.Now(), monotime.Time(s.warm)
		until := before.Add(min(r.samples.interval, end.Sub(before)))
		if before < warm && warm <= until {
			advance(ctx, net, warm)
			r.warmedUp(s)
		}
		advance(ctx, net, until)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.samples.take(s)
		sampled(monotime.Duration(net.Now()))
		done = s.world.Done()
	}
	r.finish(s)
	return r, nil
}

// advance plays the network until a time, unless ctx ends first.
func advance(ctx context.Context, net *simnet.Net, until monotime.Time) {
	for n := 0; net.Step(until); n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return
		}
	}
}

// take adds the sample of the interval that has ended.
func (t *samples) take(s *scenario) {
	var one sample
	for i, g := range s.groups {
		received, window, trip, active := int64(0), 0, monotime.Duration(0), 0
		for _, f := range g.flows {
			received += f.Received()
			if f.Began() && f.Ended == monotime.Never {
				p := f.Path()
				window, trip, active = window+int(p.WindowBytes), trip+p.RTT, active+1
			}
		}
		active = max(active, 1)
		one.groups = append(one.groups, groupSample{received - t.received[i], window / active,
			trip / monotime.Duration(active)})
		t.received[i] = received
	}
	var now totals
	for _, l := range s.world.Net.Links() {
		one.queue = max(one.queue, l.Waiting())
		now.dropped += l.Count.Dropped + l.Count.Lost
		now.marked += l.Count.Marked
	}
	one.dropped, one.marked = now.dropped-t.counted.dropped, now.marked-t.counted.marked
	t.counted = now
	t.list = append(t.list, one)
	if len(t.list) == maxSamples {
		t.join()
	}
}

// join makes one sample of two.
func (t *samples) join() {
	t.interval *= 2
	for i := range len(t.list) / 2 {
		a, b := t.list[2*i], t.list[2*i+1]
		b.queue = max(a.queue, b.queue)
		b.dropped += a.dropped
		b.marked += a.marked
		for k := range b.groups {
			b.groups[k].bytes += a.groups[k].bytes
		}
		t.list[i] = b
	}
	t.list = t.list[:len(t.list)/2]
}

// result is a run that has ended.
type result struct {
	scenario *scenario
	samples  samples
	groups   []groupResult
	links    []linkResult
	took     monotime.Duration // virtual time
	measured monotime.Time     // since when bytes count
	before   [][]int64         // carried by each flow of each group until then
}

// groupResult is that of the flows of a statement.
type groupResult struct {
	Flows    string       `json:"flows"`
	Count    int          `json:"count"`
	Ended    int          `json:"ended"`
	Failed   int          `json:"failed"`
	Failure  string       `json:"failure,omitempty"`
	Rate     float64      `json:"bytes_per_second"`
	Jain     float64      `json:"jain"`
	First    float64      `json:"first_end_seconds,omitempty"`
	Median   float64      `json:"median_end_seconds,omitempty"`
	Last     float64      `json:"last_end_seconds,omitempty"`
	Dropped  int          `json:"dropped"`
	Repeated uint64       `json:"repeated"`
	Timeouts uint64       `json:"timeouts"`
	Each     []flowResult `json:"each"`
}

// flowResult is that of one flow.
type flowResult struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Bytes    int64   `json:"bytes"`
	Rate     float64 `json:"bytes_per_second"`
	End      float64 `json:"end_seconds,omitempty"`
	Dropped  int     `json:"dropped"`
	Repeated uint64  `json:"repeated"`
	Timeouts uint64  `json:"timeouts"`
	Failure  string  `json:"failure,omitempty"`
}

// linkResult is that of one direction of a link.
type linkResult struct {
	Name      string  `json:"link"`
	Passed    int     `json:"passed"`
	Dropped   int     `json:"dropped"`
	Lost      int     `json:"lost"`
	Marked    int     `json:"marked"`
	Used      float64 `json:"used"` // of its rate at the end
	Queue     float64 `json:"mean_queue_seconds"`
	MostQueue float64 `json:"most_queue_seconds"`
}

// warmedUp has bytes count from now on.
func (r *result) warmedUp(s *scenario) {
	r.measured, r.before = s.world.Net.Now(), nil
	for _, g := range s.groups {
		var list []int64
		for _, f := range g.flows {
			list = append(list, f.Carried())
		}
		r.before = append(r.before, list)
	}
}

func (r *result) finish(s *scenario) {
	now := s.world.Net.Now()
	r.took = monotime.Duration(now)
	hosts := map[string]string{}
	for name, node := range s.names {
		hosts[node.Addr.String()] = name
	}
	for i, g := range s.groups {
		r.groups = append(r.groups, r.group(g, r.before[i], hosts, now))
	}
	for _, l := range s.world.Net.Links() {
		if l.Count == (simnet.LinkCounts{}) {
			continue
		}
		one := linkResult{Name: l.Name, Passed: l.Count.Passed, Dropped: l.Count.Dropped,
			Lost: l.Count.Lost, Marked: l.Count.Marked, MostQueue: l.Count.MostQueued.Seconds()}
		if l.Count.Passed > 0 {
			one.Queue = l.Count.Queued.Seconds() / float64(l.Count.Passed)
		}
		if r.took > 0 {
			one.Used = float64(l.Count.Bytes) * 8 / float64(l.Rate) / r.took.Seconds()
		}
		r.links = append(r.links, one)
	}
}

func (r *result) group(g *group, before []int64, hosts map[string]string,
	now monotime.Time) groupResult {
	out := groupResult{Flows: g.text, Count: len(g.flows)}
	var ends, rates []float64
	var bytes int64
	first, last := monotime.Never, monotime.Time(0)
	for i, f := range g.flows {
		c := f.Counts()
		one := flowResult{From: hosts[f.From.String()], To: hosts[f.To.String()],
			Bytes: f.Carried(), Dropped: f.Drops, Repeated: c.Repeated,
			Timeouts: c.Timeouts, Failure: f.Failure()}
		// A flow with a size counts from its start to its end, one without from warm on.
		from, until, carried := max(f.Start, r.measured), now, f.Carried()-before[i]
		if f.Bytes > 0 {
			from, carried = f.Start, f.Carried()
		}
		if f.Ended != monotime.Never {
			until = f.Ended
			one.End = monotime.Duration(until).Seconds()
			ends = append(ends, one.End)
		}
		if until > from {
			one.Rate = float64(carried) / until.Sub(from).Seconds()
		}
		first, last, bytes = min(first, from), max(last, until), bytes+carried
		rates = append(rates, one.Rate)
		out.Each = append(out.Each, one)
		out.Dropped += one.Dropped
		out.Repeated += one.Repeated
		out.Timeouts += one.Timeouts
		if one.Failure != "" {
			out.Failed++
			out.Failure = one.Failure
		}
	}
	if last > first {
		out.Rate = float64(bytes) / last.Sub(first).Seconds()
	}
	out.Jain, out.Ended = flows.Jain(rates), len(ends)
	if slices.Sort(ends); len(ends) > 0 {
		out.First, out.Median, out.Last = ends[0], ends[len(ends)/2], ends[len(ends)-1]
	}
	return out
}
