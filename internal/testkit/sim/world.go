// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

// world is one simulation under way.
type world struct {
	seed      uint64
	net       *simnet.Net
	burst     *roce.Burst
	nodes     []*node
	endpoints []*endpoint
	datagrams []*endpoint // the UD ones
	arenas    []*arena    // of shared receive queues
	calm      bool        // no faults at all
	lenient   bool        // faults so heavy that retries may run out
	memory    []byte      // bursts are written to it, as to that of a ring; or nil
	err       error       // the first promise broken
	Outcomes  Outcomes
}

// Outcomes counts a run's events, so that a test can see that the run was no idle one.
type Outcomes struct {
	Sends, Recvs, Errors, Flushed, Retransmitted, Replays, Kills int

	Revoked, BadPackets, XRC, Long, Kept, NotKept int

	Hash uint64
	Net  simnet.Counts
}

// Spans of virtual time.
const (
	faultyTime = 60 * monotime.Millisecond
	healTime   = 100 * monotime.Second // all work must end within this after healing
	maxSteps   = 3_000_000
)

// Memory of a node for requests that arrive before their turn. The second node of each run has
// less than its queue pairs could use.
const (
	plentyBytes = 1 << 20
	scarceBytes = 4 << 10
)

// Run plays one seed and returns the first promise broken.
func Run(seed uint64) (Outcomes, error) {
	return run(&world{seed: seed, net: simnet.New(seed), burst: roce.NewBurst()})
}

// RunInMemory is Run with the bursts and the long packets of processes of one host. A packet that
// the network damages is lost, because a ring damages none.
func RunInMemory(seed uint64) (Outcomes, error) {
	return run(&world{seed: seed, net: simnet.New(seed), burst: roce.NewBurst(),
		memory: make([]byte, ringEntry)})
}

// ringEntry is the memory of a burst in a ring.
const ringEntry = 33 << 10

func run(w *world) (Outcomes, error) {
	w.build()
	w.net.At(monotime.Time(faultyTime), w.net.Heal)
	steps := 0
	for end := monotime.Time(faultyTime + healTime); w.err == nil && !w.quiet() &&
		w.net.Step(end); steps++ {
		if steps == maxSteps {
			w.fail("still busy after %d events", steps)
		}
	}
	w.finish()
	w.Outcomes.Hash, w.Outcomes.Net = w.net.Hash(), w.net.Count
	if w.err != nil {
		return w.Outcomes, fmt.Errorf("seed %d at %v: %w", w.seed,
			monotime.Duration(w.net.Now()), w.err)
	}
	return w.Outcomes, nil
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *world) rnd(n int) int { return w.net.Rand.IntN(max(n, 1)) }

func (w *world) fill(b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		v := w.net.Rand.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
}

func (w *world) newNode() *node {
	n := &node{
		addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + len(w.nodes))}),
		mem:  mem.NewTable(w.net.Rand.Uint32),
		qps:  map[ib.QPN]*endpoint{},
	}
	n.reorderBytes = plentyBytes
	if len(w.nodes) == 1 {
		n.reorderBytes = scarceBytes
	}
	n.reorder = mem.NewBudget(n.reorderBytes)
	w.nodes = append(w.nodes, n)
	w.net.Attach(n.addr, func(d *simnet.Datagram) { w.deliver(n, d) })
	return n
}

// poll fills the burst with a machine's next output.
func (w *world) poll(m roce.Machine) bool {
	if w.memory != nil {
		w.burst.Into(w.memory, false)
	}
	if m.PollOutput(w.net.Now(), w.burst) {
		return true
	}
	w.burst.Reset()
	return false
}

// send puts the datagrams of a burst on the network.
func (w *world) send(b *roce.Burst) {
	if b.Packets() > b.Len() {
		w.Outcomes.Long++
	}
	b.Seal()
	all := bytes.Join(b.Iov(), nil)
	if w.memory != nil {
		all = bytes.Clone(w.memory[:b.Bytes()])
	}
	for i := 0; len(all) > 0; i++ {
		n := min(len(all), b.SegmentBytes())
		p := b.Path()
		w.net.Send(simnet.Datagram{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, ID: uint16(i),
			Payload: all[:n:n]})
		all = all[n:]
	}
	b.Reset()
}

// deliver handles a datagram as the engine does: form, ICRC, then the queue pair.
func (w *world) deliver(n *node, d *simnet.Datagram) {
	var p wire.Packet
	pseudo := wire.NewPseudo(d.Src, d.Dst, d.SrcPort, roce.UDPPort)
	malformed := p.Parse(d.Payload)
	if w.memory != nil {
		if d.Damaged {
			n.bad++
			w.Outcomes.BadPackets++
			return
		}
		if malformed != wire.WellFormed {
			w.fail("%v sent a packet that is malformed: %v", d.Src, malformed)
			return
		}
	} else if malformed != wire.WellFormed && malformed != wire.BadOpcode ||
		!pseudo.VerifyWithID(d.Payload, d.ID) {
		n.bad++
		w.Outcomes.BadPackets++
		if !d.Damaged {
			w.fail("%v sent a packet that is malformed (%v) or has a wrong ICRC", d.Src, malformed)
		}
		return
	}
	if d.Damaged {
		w.fail("a damaged packet passed the ICRC: %x", d.Payload)
	}
	if e := n.qps[p.DestQP]; e != nil {
		e.input(&p, d)
		w.pollNode(n)
	}
}

// pollNode looks at completions right when they may have come, some of the time: their effects must
// be there at once.
func (w *world) pollNode(n *node) {
	if w.rnd(3) != 0 {
		return
	}
	for _, e := range w.endpoints {
		if e.node == n {
			e.poll()
		}
	}
}

// quiet reports whether all work has ended.
func (w *world) quiet() bool {
	if w.net.Now() < monotime.Time(faultyTime) {
		return false
	}
	for _, e := range w.endpoints {
		if !e.idle() {
			return false
		}
	}
	return true
}

// idle reports whether all that e planned has been posted and has its fate.
func (e *endpoint) idle() bool {
	return e.gone || e.posted == len(e.plan) && e.sq.Len() == 0 && e.scq.Len() == 0 &&
		e.rcq.Len() == 0
}

// tick is the application of e: it posts, polls, and comes back later.
func (e *endpoint) tick() {
	w := e.world
	if e.gone {
		return
	}
	e.pool.post(w, 1+w.rnd(4))
	for n := 1 + w.rnd(4); n > 0 && e.mayPost(); n-- {
		it := e.plan[e.posted]
		slot, ok := e.sq.Reserve()
		if !ok {
			break
		}
		it.fill(e, slot)
		e.sq.Commit()
		e.posted++
	}
	e.machine.Doorbell(w.net.Now())
	e.pump()
	if w.rnd(2) == 0 {
		e.poll()
	}
	pause := 300 * monotime.Microsecond
	if w.net.Now() > monotime.Time(faultyTime) {
		pause = 3 * monotime.Millisecond
	}
	w.net.After(monotime.Duration(1+w.rnd(int(pause))), e.tick)
}

// mayPost reports whether more of the plan can be posted: not while
// completions wait that another one might overflow, nor before the peer's
// window is bound.
func (e *endpoint) mayPost() bool {
	if e.posted == len(e.plan) || e.scq.Len()+e.sq.Len() >= sqDepth {
		return false
	}
	return e.peer == nil || e.peer.window == nil || e.peer.bound ||
		e.plan[e.posted].wr.Opcode == ib.WRBindMW || e.peer.gone || e.peer.state == ib.QPErr
}
