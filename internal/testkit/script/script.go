// SPDX-License-Identifier: BSD-2-Clause

package script

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// The two ends, and the numbers they start from unless a Setup changes them.
const (
	QPN     ib.QPN = 0x11
	PeerQPN ib.QPN = 0x22
	PSN     ib.PSN = 100 // of the machine's first request
	PeerPSN ib.PSN = 500 // of the peer's first request

	PD   mem.PD = 7
	Base uint64 = 0x10000 // address of the machine's memory

	RemoteAddr uint64  = 0x7000_0000 // of the peer's memory, which is nowhere
	RemoteKey  ib.RKey = 0x4321

	memoryBytes = 1 << 18
	firstRecvID = 1001
	sourcePort  = 0xc123
)

// Addresses of the machine and its peer.
var (
	Local = netip.MustParseAddr("192.0.2.1")
	Peer  = netip.MustParseAddr("192.0.2.2")
)

// Setup has the parameters of the machine; New's options change them.
type Setup struct {
	Attr      ib.QPAttr // applied on the way to RTS
	Access    ib.Access // of the machine's memory
	SQDepth   int
	RQDepth   int
	SRQ       bool
	SRQPD     mem.PD // of the shared receive queue: another than PD, by default
	SignalAll bool
	State     ib.QPState  // where to stop on the way: RTS if not set
	Segments  int         // datagrams a burst may have
	Reorder   *mem.Budget // for packets that arrive before their turn
	Ring      int         // bytes of the memory that bursts go by, as within a host; 0: by UDP
}

// Script is one machine with its memory, its queues and the test's clock.
type Script struct {
	Machine roce.Machine
	Mem     *mem.Table
	MR      *mem.Region
	Memory  []byte // the bytes of MR, Memory[0] at Base
	SQ      *queue.SendQueue
	SRQ     *queue.SRQ // nil unless Setup.SRQ
	Now     monotime.Time
	Bursts  int        // sent so far: each is one system call's worth
	TOS     uint8      // traffic class of the peer's packets
	TClass  uint8      // that of the machine's newest packet
	Dst     netip.Addr // where that went

	t        testing.TB
	setup    Setup
	rq       *queue.RecvQueue
	sharedMR *mem.Region // the same memory in the domain of the shared receive queue
	path     *roce.Path  // of the machine's packets
	back     *roce.Path  // of the peer's
	burst    *roce.Burst
	out      []wire.Packet // sent and not yet wanted
	sends    completions
	recvs    completions
	wrid     uint64
	recvID   uint64
	held     bool
	lets     bool          // acknowledgements wait: see DelayingAcks
	ack      roce.AckPlace // of others
	ring     []byte
	story    []string
}

// Maker makes the machine under test, as rc.New does.
type Maker func(roce.Config) roce.Machine

// allAccess has the default rights of the machine's memory and queue pair.
const allAccess = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind

// New returns a script whose machine is in RTS, or where a Setup says.
func New(t testing.TB, make Maker, options ...func(*Setup)) *Script {
	t.Helper()
	set := Setup{
		SQDepth: 64, RQDepth: 64, SRQPD: PD + 1, State: ib.QPRTS, Access: allAccess,
		Segments: roce.MaxSegments, Attr: ib.QPAttr{
			PathMTU: ib.MTU1024, RQPSN: PeerPSN, SQPSN: PSN, DestQPN: PeerQPN,
			AccessFlags: allAccess, MaxRdAtomic: 4, MaxDestRdAtomic: 4, MinRNRTimer: 12,
			Timeout: 14, RetryCnt: 3, RNRRetry: 3, QKey: 0x1111,
		},
	}
	for _, o := range options {
		o(&set)
	}
	s := build(t, make, &set)
	s.setup = set
	s.Connect()
	return s
}

// Connect takes the machine from RESET to RTS, or where the Setup says.
func (s *Script) Connect() { s.modify(&s.setup) }

func build(t testing.TB, make Maker, set *Setup) *Script {
	seed := uint32(1)
	s := &Script{
		t: t, Memory: newMemory(), burst: roce.NewBurst(), recvID: firstRecvID - 1,
		Mem: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed }),
		SQ:  queue.NewSendQueue(set.SQDepth, ib.MaxSGE, 256),
		rq:  queue.NewRecvQueue(set.RQDepth, ib.MaxSGE),
	}
	s.burst.Limit(set.Segments)
	s.ring = bytes.Repeat([]byte{0}, set.Ring)
	var err error
	if s.MR, err = s.Mem.Register(PD, s.Memory, Base, set.Access); err != nil {
		t.Fatal(err)
	}
	var rq qp.RecvSource = s.rq
	if set.SRQ {
		s.SRQ = queue.NewSRQ(set.RQDepth, ib.MaxSGE, nil)
		rq = s.SRQ
		if s.sharedMR, err = s.Mem.Register(set.SRQPD, s.Memory, Base, set.Access); err != nil {
			t.Fatal(err)
		}
	}
	s.path = roce.NewPath(Local, sourcePort, &ib.GRH{DGID: ib.GIDFromAddr(Peer)})
	s.back = roce.NewPath(Peer, sourcePort, &ib.GRH{DGID: ib.GIDFromAddr(Local)})
	s.Machine = make(roce.Config{
		QPN: QPN, PD: PD, Mem: s.Mem, SQ: s.SQ, RQ: rq, SRQ: set.SRQ, SRQPD: set.SRQPD,
		SendCQ: &s.sends, RecvCQ: &s.recvs, SignalAll: set.SignalAll,
		Reorder: set.Reorder,
	})
	return s
}

// newMemory returns bytes that start at a multiple of 8, as atomics need.
func newMemory() []byte { return bytes.Repeat([]byte{Untouched}, memoryBytes) }

// attribute masks of the way to RTS.
const (
	maskInit = ib.QPStateAttr | ib.QPAccessFlags | ib.QPPKeyIndex | ib.QPPort | ib.QPQKey
	maskRTR  = ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN |
		ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
	maskRTS = ib.QPStateAttr | ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry |
		ib.QPMaxQPRdAtomic
)

func (s *Script) modify(set *Setup) {
	for _, step := range []struct {
		to   ib.QPState
		mask ib.QPAttrMask
	}{{ib.QPInit, maskInit}, {ib.QPRTR, maskRTR}, {ib.QPRTS, maskRTS}} {
		if step.to > set.State {
			return
		}
		a := set.Attr
		a.State = step.to
		s.Machine.Modify(s.Now, &a, step.mask, s.path)
	}
}

// Modify changes attributes as ibv_modify_qp does after its checks.
func (s *Script) Modify(a ib.QPAttr, mask ib.QPAttrMask) {
	if mask&ib.QPStateAttr != 0 {
		s.tell("modify to %v", a.State)
	}
	s.Machine.Modify(s.Now, &a, mask, s.path)
	s.pump()
}

// SetState changes the state alone.
func (s *Script) SetState(to ib.QPState) { s.Modify(ib.QPAttr{State: to}, ib.QPStateAttr) }

// Advance moves the clock, firing the timers that come due on the way.
func (s *Script) Advance(d monotime.Duration) {
	end := s.Now.Add(d)
	s.tell("%v pass", d)
	for n := 0; ; n++ {
		at := s.Machine.NextTimeout()
		if at > end {
			break
		}
		if n == maxTimers {
			s.fatalf("a timer fires for ever")
		}
		s.Now = max(s.Now, at)
		s.Machine.HandleTimeout(s.Now)
		s.pump()
	}
	s.Now = end
}

// maxTimers bounds the timers that fire in one Advance.
const maxTimers = 10000

// Together does several things before the machine may send.
func (s *Script) Together(f func()) {
	s.held = true
	f()
	s.held = false
	s.pump()
}

// DelayingAcks does several things while acknowledgements that can wait stay
// behind, as they do while two applications that poll talk in turns.
func (s *Script) DelayingAcks(f func()) {
	s.lets = true
	f()
	s.lets = false
	s.pump()
}

// PlaceAck sets where acknowledgements go that do not wait.
func (s *Script) PlaceAck(p roce.AckPlace) { s.ack = p }

// pump takes the machine's bursts apart into packets.
func (s *Script) pump() {
	if s.held {
		return
	}
	for n := 0; s.poll(); n++ {
		if n == maxBursts {
			s.fatalf("the machine sends for ever")
		}
		s.unload()
	}
}

// poll takes the next burst, as the engine does for an application that polls.
func (s *Script) poll() bool {
	if _, ok := s.Machine.AckMayWait(); ok && s.lets {
		return false
	}
	place := s.ack
	if s.lets {
		place = roce.AckLater
	}
	s.burst.PlaceAck(place)
	if len(s.ring) > 0 {
		s.burst.Into(s.ring, false)
	}
	return s.Machine.PollOutput(s.Now, s.burst)
}

const maxBursts = 10000

// unload cuts a burst into datagrams, as UDP_SEGMENT does.
func (s *Script) unload() {
	b := s.burst
	s.Bursts++
	b.Seal()
	all := bytes.Join(b.Iov(), nil)
	if len(s.ring) > 0 {
		all = bytes.Clone(s.ring[:b.Bytes()])
	}
	if len(all) != b.Bytes() {
		s.fatalf("burst of %d bytes says it has %d", len(all), b.Bytes())
	}
	for i := 0; len(all) > 0; i++ {
		n := min(len(all), b.SegmentBytes())
		s.collect(b.Path(), all[:n:n], uint16(i))
		all = all[n:]
	}
	b.Reset()
}

func (s *Script) collect(path *roce.Path, raw []byte, id uint16) {
	var p wire.Packet
	if m := p.Parse(raw); m != wire.WellFormed {
		s.fatalf("sent a malformed packet (%v): %x", m, raw)
	}
	if len(s.ring) == 0 && !path.Pseudo.VerifyWithID(raw, id) {
		s.fatalf("sent %v with a wrong ICRC", Format(&p))
	}
	s.tell("  → %v", Format(&p))
	s.out, s.TClass, s.Dst = append(s.out, p), path.TClass, path.Dst
}

// Format tells a packet in a line.
func Format(p *wire.Packet) string {
	line := fmt.Sprintf("%v PSN=%v", p.Opcode, p.PSN)
	if p.AckReq {
		line += " AckReq"
	}
	if p.Info.HasAETH {
		line += fmt.Sprintf(" %v MSN=%d", p.AETH.Syndrome, p.AETH.MSN)
	}
	if p.Info.HasRETH {
		line += fmt.Sprintf(" VA=%#x len=%d", p.RETH.VA, p.RETH.DMALen)
	}
	if p.Info.HasPayload {
		line += fmt.Sprintf(" payload=%d", len(p.Payload))
	}
	return line
}

func (s *Script) tell(format string, args ...any) {
	s.story = append(s.story,
		fmt.Sprintf("%10v  ", monotime.Duration(s.Now))+fmt.Sprintf(format, args...))
}

func (s *Script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.story, "\n"))
}
