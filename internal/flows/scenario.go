// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
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
	TRP   // DDP segments of the path MTU
	Cubic // a model of TCP with CUBIC
	BBR   // a model of TCP with BBR
)

func (k Kind) String() string {
	return [...]string{"WRITE", "READ", "SEND", "TRP", "CUBIC", "BBR"}[k]
}

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

	Loss    int // of a million, each way; see simnet.Link
	Bursts  simnet.Bursts
	Reorder int // of a million, each way
	Late    monotime.Duration

	Message int // bytes
	Depth   int // messages posted
	Reads   int // READs outstanding at most; 0 is 128

	Congestion congestion.Algorithm

	Naps func(*rand.Rand) monotime.Duration // of hosts: see World

	GoBackN bool // responders go back N, as foreign ones do: they keep no request after a gap

	Warm, Measured monotime.Duration
	Seed           uint64
}

// Result has the rates and counts of a Scenario that was played.
type Result struct {
	Goodput float64 // bytes a second, of all flows
	Each    []float64
	Data    simnet.LinkCounts // of the link that carries the payload, in all the time
	Counts                    // in all the time
	Dead    int               // flows that ended with an error
	Why     string
}

// Lost returns how many packets of payload did not arrive.
func (r *Result) Lost() int { return r.Data.Lost + r.Data.Dropped }

// Fill sets the open fields of a scenario from the path: messages and depth that keep four products
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
		s.Depth = max(128, 4*product/s.Message)
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
		Rate: s.Rate, Delay: s.RTT / 2, Jitter: s.Jitter, Buffer: s.Buffer,
		Mark: simnet.Marking{From: s.MarkAt}, Loss: s.Loss, Bursts: s.Bursts,
		Reorder: s.Reorder, Late: s.Late,
	}
}

// world returns a network with the flows of a scenario, and the link that carries their payload.
func (s *Scenario) world() (*World, *simnet.Link) {
	s.Fill()
	w := NewWorld(s.Seed)
	w.Naps = s.Naps
	there, back := s.link(), s.link()
	data := there
	if s.Kind == Read {
		data = back
	}
	for i := range s.Flows {
		client := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		server := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
		w.Net.Route(client, server, there)
		w.Net.Route(server, client, back)
		w.Add(Spec{Kind: s.Kind, From: client, To: server, MTU: s.MTU, Message: s.Message,
			Depth: s.Depth, Reads: s.Reads, GoBackN: s.GoBackN, Congestion: s.Congestion,
			Start: monotime.Time(i) * monotime.Time(137*monotime.Microsecond)})
	}
	return w, data
}

// Run plays a scenario.
func Run(s Scenario) Result {
	w, data := s.world()
	w.Run(s.Warm)
	before := make([]int64, s.Flows)
	for i, f := range w.Flows {
		before[i] = f.Carried()
	}
	w.Run(s.Measured)
	var r Result
	for i, f := range w.Flows {
		each := float64(f.Carried()-before[i]) / s.Measured.Seconds()
		r.Each = append(r.Each, each)
		r.Goodput += each
		f.count(&r.Counts)
		if why := f.Failure(); why != "" {
			r.Dead++
			r.Why = why
		}
	}
	r.Data = data.Count
	return r
}

func (s *Scenario) String() string {
	return fmt.Sprintf("%v %g Gb/s MTU %d RTT %v loss %g %%",
		s.Kind, float64(s.Rate)/1e9, s.MTU.Bytes(), s.RTT, float64(s.Loss)/1e4)
}
