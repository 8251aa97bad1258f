// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// Kind is the operation that a flow repeats.
type Kind uint8

// Kinds of flow. All but TRP are of an RC queue pair.
const (
	Write Kind = iota
	Read
	Send
	TRP // DDP segments of the path MTU
)

func (k Kind) String() string { return [...]string{"WRITE", "READ", "SEND", "TRP"}[k] }

// Scenario is a path and the flows on it.
type Scenario struct {
	Kind  Kind
	Flows int // 0 is 1
	MTU   ib.MTU

	Rate   int64 // bits a second, each way
	RTT    monotime.Duration
	Jitter monotime.Duration
	Buffer int // bytes, each way
	MarkAt int // see simnet.Link

	Loss, LossRun int // of a million, each way; see simnet.Link
	Reorder       int // of a million, each way
	Late          monotime.Duration

	Message int // bytes
	Depth   int // messages posted
	Reads   int // READs outstanding at most; 0 is 128

	GoBackN bool // responders go back N, as foreign ones do: they keep no request after a gap

	Warm, Measured monotime.Duration
	Seed           uint64
}

// Result has the rates and counts of a Scenario that was played.
type Result struct {
	Goodput            float64 // bytes a second, of all flows
	Each               []float64
	Data               simnet.LinkCounts // of the link that carries the payload, in all the time
	Repeated, Timeouts uint64            // packets, expired timers, in all the time
	Missed             uint64            // packets that the machines took for lost
	Dead               int               // flows that ended with an error
	Why                string
}

// Lost returns how many packets of payload did not arrive.
func (r *Result) Lost() int { return r.Data.Lost + r.Data.Dropped }

// Fill sets the open fields of a scenario from the path: messages and depth that keep two products
// of bandwidth and delay outstanding, and times for the flow to settle.
func (s *Scenario) Fill() {
	product := int(s.Rate / 8 * int64(s.RTT) / int64(monotime.Second))
	s.Flows = max(s.Flows, 1)
	if s.MTU == 0 {
		s.MTU = ib.MTU1024
	}
	if s.Message == 0 {
		s.Message = 64 << 10
		if product > 2<<20 {
			s.Message = 1 << 20
		}
	}
	if s.Depth == 0 {
		s.Depth = max(128, 2*product/s.Message)
	}
	if s.Reads == 0 {
		s.Reads = 128
	}
	if s.Buffer == 0 {
		s.Buffer = 1_000_000
	}
	if s.Warm == 0 {
		s.Warm = max(30*s.RTT, 200*monotime.Millisecond)
	}
	if s.Measured == 0 {
		s.Measured = max(20*s.RTT, 300*monotime.Millisecond)
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
}

func (s *Scenario) link() *simnet.Link {
	return &simnet.Link{
		Rate: s.Rate, Delay: s.RTT / 2, Jitter: s.Jitter, Buffer: s.Buffer, MarkAt: s.MarkAt,
		Loss: s.Loss, LossRun: s.LossRun, Reorder: s.Reorder, Late: s.Late,
	}
}

// flow is a pair of machines, of either kind, with an application that keeps them busy.
type flow interface {
	start()
	bytes() int64 // brought across
	count(r *Result)
}

// Run plays a scenario.
func Run(s Scenario) Result {
	s.Fill()
	w := &world{Scenario: s, net: simnet.New(s.Seed)}
	there, back := s.link(), s.link()
	data := there
	if s.Kind == Read {
		data = back
	}
	for i := range s.Flows {
		w.net.Route(clientAddr(i), serverAddr(i), there)
		w.net.Route(serverAddr(i), clientAddr(i), back)
		var f flow
		if s.Kind == TRP {
			f = w.newTRP(i)
		} else {
			f = w.newRC(i)
		}
		w.flows = append(w.flows, f)
		w.net.At(monotime.Time(i)*monotime.Time(137*monotime.Microsecond), f.start)
	}
	w.run(s.Warm)
	before := make([]int64, s.Flows)
	for i, f := range w.flows {
		before[i] = f.bytes()
	}
	w.run(s.Measured)
	var r Result
	for i, f := range w.flows {
		each := float64(f.bytes()-before[i]) / s.Measured.Seconds()
		r.Each = append(r.Each, each)
		r.Goodput += each
		f.count(&r)
	}
	r.Data = data.Count
	return r
}

// world is a scenario under way.
type world struct {
	Scenario
	net   *simnet.Net
	flows []flow
}

func (w *world) run(d monotime.Duration) {
	for end := w.net.Now().Add(d); w.net.Step(end); {
	}
}

func (s *Scenario) String() string {
	return fmt.Sprintf("%v %g Gb/s MTU %d RTT %v loss %g %%",
		s.Kind, float64(s.Rate)/1e9, s.MTU.Bytes(), s.RTT, float64(s.Loss)/1e4)
}
