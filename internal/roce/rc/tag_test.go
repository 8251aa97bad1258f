// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// matcher is a script of a queue pair that matches tags.
type matcher struct {
	*script.Script
	t    *testing.T
	tags *queue.TagList
	sq   *queue.SendQueue
	wcs  []ib.WC // of the shared queue
}

func (m *matcher) Push(wc *ib.WC, solicited bool) bool {
	m.wcs = append(m.wcs, *wc)
	return true
}

func newMatcher(t *testing.T, options ...func(*script.Setup)) *matcher {
	return matcherOf(t, true, options...)
}

// matcherOf returns one that READs the data of rendezvous, or leaves that to the application.
func matcherOf(t *testing.T, reads bool, options ...func(*script.Setup)) *matcher {
	m := &matcher{t: t}
	make := func(c roce.Config) roce.Machine {
		m.tags = queue.NewTagList(c.RQ.(*queue.SRQ), 8, 2, m.Push)
		if c.Tags, c.RecvCQ = m.tags, m; !reads {
			return rc.New(c)
		}
		m.sq = rc.NewTagSendQueue(m.tags)
		c.SQ, c.ReadsTags, c.SendCQ = m.sq, true, rc.TagCompleter{To: m}
		return rc.New(c)
	}
	m.Script = script.New(t, make, append(options, func(s *script.Setup) { s.SRQ, s.SRQPD = true, script.PD })...)
	return m
}

// add adds a tagged receive of n bytes at off of the memory.
func (m *matcher) add(id, tag uint64, off, n uint32) {
	m.t.Helper()
	wr := ib.TagWR{RecvID: id, Tag: tag, Mask: 0xffff, SGList: []ib.SGE{{Addr: script.Base + uint64(off), Length: n, LKey: m.MR.LKey()}}}
	if err := m.tags.Post(&wr); err != nil {
		m.t.Fatal(err)
	}
}

func (m *matcher) wantWC(why string, want ib.WC) {
	m.t.Helper()
	if len(m.wcs) == 0 {
		m.t.Fatalf("%s: no completion", why)
	}
	got := m.wcs[0]
	m.wcs = m.wcs[1:]
	if got.WRID != want.WRID || got.Status != want.Status || got.Flags != want.Flags || got.TMInfo() != want.TMInfo() ||
		want.Status == ib.WCSuccess && (got.Opcode != want.Opcode || got.ByteLen != want.ByteLen) {
		m.t.Fatalf("%s: %+v, want %+v", why, got, want)
	}
}

func (m *matcher) wantNoWC(why string) {
	m.t.Helper()
	if len(m.wcs) != 0 {
		m.t.Fatalf("%s: %+v", why, m.wcs)
	}
}

func (m *matcher) wantNAK(why string, s wire.Syndrome) {
	m.t.Helper()
	if p := m.WantPacket(why, wire.RCAcknowledge, peerPSN); p.AETH.Syndrome != s {
		m.t.Fatalf("%s: %v", why, script.Format(&p))
	}
}

func matched(id uint64, h ib.TMH, n int, f ib.WCFlags) ib.WC {
	wc := ib.WC{WRID: id, Opcode: ib.WCTMRecv, ByteLen: uint32(n), Flags: f}
	wc.SetTMInfo(ib.TMInfo{Tag: h.Tag, Priv: h.AppCtx})
	return wc
}

func eager(tag uint64) ib.TMH { return ib.TMH{Op: ib.TMEager, AppCtx: 0x01020304, Tag: tag} }

var rndv = ib.TMH{Op: ib.TMRendezvous, AppCtx: 0xfedcba98, Tag: 0x8000000000000005}

// rendezvous is the message that announces n bytes of the peer's memory.
func rendezvous(n uint32) []byte {
	return ib.RVH{VA: script.RemoteAddr, RKey: script.RemoteKey, Length: n}.Append(rndv.Append(nil))
}

const both = ib.WCTMMatch | ib.WCTMDataValid

func TestTagEager(t *testing.T) {
	m := newMatcher(t)
	h := eager(0xaaaa000000000007)
	m.add(70, 7, 0, 2000)
	m.add(71, 7, 4000, 2000)
	h.Tag = 7
	data := script.Bytes(100, 3)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, append(h.Append(nil), data...)))
	m.WantPacket("taken", wire.RCAcknowledge, peerPSN)
	m.wantWC("the oldest", matched(70, h, 100, both))
	m.WantMemory("without the header", 0, data)
	m.WantUntouched("no more", 100, 100)
	long := script.Bytes(1500, 4)
	m.Recv(script.Request(wire.RCSendFirst, peerPSN+1, append(h.Append(nil), long[:1008]...)))
	m.wantWC("matched at once", matched(71, h, 0, ib.WCTMMatch))
	m.wantNoWC("not all is here")
	m.Recv(script.Request(wire.RCSendLast, peerPSN+2, long[1008:]))
	m.wantWC("data", ib.WC{WRID: 71, Opcode: ib.WCTMRecv, ByteLen: 1500, Flags: ib.WCTMDataValid})
	m.WantMemory("long", 4000, long)
}

// A message that matches no tag takes a receive of the shared queue, whole. Tags that are added
// before it was handled wait.
func TestTagUnexpected(t *testing.T) {
	m := newMatcher(t)
	h := eager(9)
	m.PostRecv(0, 2000)
	msg := append(h.Append(nil), script.Bytes(20, 1)...)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, msg))
	m.wantWC("unexpected", ib.WC{WRID: 1001, Opcode: ib.WCTMRecv, ByteLen: 36})
	m.WantMemory("with the header", 0, msg)
	m.add(90, 9, 4000, 100)
	m.PostRecv(0, 2000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN+1, msg))
	m.wantWC("not handled yet", ib.WC{WRID: 1002, Opcode: ib.WCTMRecv, ByteLen: 36, Flags: ib.WCTMSyncReq})
	if err := m.tags.Post(&ib.TagWR{ID: 5, Opcode: ib.TagSync, Flags: ib.TagUnexpected | ib.TagSignaled, UnexpectedCnt: 2}); err != nil {
		t.Fatal(err)
	}
	m.wantWC("in step", ib.WC{WRID: 5, Opcode: ib.WCTMSync})
	m.Recv(script.Request(wire.RCSendOnly, peerPSN+2, msg))
	m.wantWC("matches", matched(90, h, 20, both))
}

// Messages without a tag, and FINs that nobody waits for, are the application's. They are not
// counted as unexpected.
func TestTagNone(t *testing.T) {
	for _, c := range []struct {
		payload []byte
		op      ib.WCOpcode
	}{
		{nil, ib.WCTMNoTag}, {[]byte{0}, ib.WCTMNoTag}, {make([]byte, 50), ib.WCTMNoTag},
		{ib.TMH{Op: ib.TMFin, Tag: 7}.Append(nil), ib.WCTMNoTag},
	} {
		m := newMatcher(t)
		m.PostRecv(0, 2000)
		m.add(70, 7, 4000, 100)
		m.Recv(script.Request(wire.RCSendOnly, peerPSN, c.payload))
		m.wantWC("in the shared queue", ib.WC{WRID: 1001, Opcode: c.op, ByteLen: uint32(len(c.payload))})
		m.add(71, 8, 4000, 100)
		if n, enabled := m.tags.Len(); n != 2 || enabled != 2 {
			t.Errorf("%d tags, %d match", n, enabled)
		}
	}
}

func TestTagRendezvous(t *testing.T) {
	m := newMatcher(t)
	m.add(50, 5, 0, 3000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, rendezvous(1500)))
	m.wantWC("matched", matched(50, rndv, 1500, ib.WCTMMatch))
	var read wire.Packet
	for _, p := range m.WantDrain("acknowledged and READ", 2) {
		if p.Opcode == wire.RCRDMAReadRequest {
			read = p
		}
	}
	if read.RETH != (wire.RETH{VA: script.RemoteAddr, RKey: script.RemoteKey, DMALen: 1500}) {
		t.Fatalf("%+v", read.RETH)
	}
	data := script.Bytes(1500, 6)
	m.Recv(script.Response(wire.RCRDMAReadResponseFirst, psn, data[:1024]))
	m.wantNoWC("not all is here")
	m.Recv(script.Response(wire.RCRDMAReadResponseLast, psn+1, data[1024:]))
	m.wantWC("data", ib.WC{WRID: 50, Opcode: ib.WCTMRecv, ByteLen: 1500, Flags: ib.WCTMDataValid})
	m.WantMemory("READ", 0, data)
	m.WantUntouched("no more", 1500, 100)
	fin := m.WantPacket("FIN", wire.RCSendOnly, psn+2)
	h := rndv
	h.Op = ib.TMFin
	if string(fin.Payload) != string(h.Append(nil)) {
		t.Fatalf("% x", fin.Payload)
	}
	m.Recv(script.Ack(psn+2, 1))
	m.wantNoWC("of a FIN")
	if m.sq.Len() != 0 {
		t.Errorf("%d are left", m.sq.Len())
	}
}

// A rendezvous that comes before the queue pair may send is READ once it may.
func TestTagRendezvousBeforeRTS(t *testing.T) {
	m := newMatcher(t, func(s *script.Setup) { s.State = ib.QPRTR })
	m.add(50, 5, 0, 3000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, rendezvous(1500)))
	m.wantWC("matched", matched(50, rndv, 1500, ib.WCTMMatch))
	m.WantPacket("acknowledged", wire.RCAcknowledge, peerPSN)
	m.WantEvent("connected", ib.EventCommEst)
	m.WantIdle("no READ yet")
	m.Modify(ib.QPAttr{State: ib.QPRTS, SQPSN: psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 4},
		ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic)
	m.WantPacket("READ", wire.RCRDMAReadRequest, psn)
}

// A receive that is too short gets the headers, and each where the send queue is the application's.
func TestTagRendezvousOfApplication(t *testing.T) {
	for _, c := range []struct {
		room, got int
		reads     bool
	}{{1499, 32, true}, {32, 32, true}, {10, 10, true}, {0, 0, true}, {1500, 32, false}, {10, 10, false}} {
		m := matcherOf(t, c.reads)
		m.add(50, 5, 0, uint32(c.room))
		m.Recv(script.Request(wire.RCSendOnly, peerPSN, rendezvous(1500)))
		wc := matched(50, rndv, c.got, both)
		wc.Status = ib.WCTMRndvIncomplete
		m.wantWC("headers only", wc)
		m.WantMemory("headers", 0, rendezvous(1500)[:c.got])
		m.WantPacket("acknowledged", wire.RCAcknowledge, peerPSN)
		m.WantIdle("no READ")
	}
}

// A message that is cut short, or of an operation that there is not, ends the queue pair.
func TestTagMalformed(t *testing.T) {
	long := append(rendezvous(10), make([]byte, ib.MaxTMRendezvous)...)
	for name, payload := range map[string][]byte{
		"cut TMH":    eager(7).Append(nil)[:15],
		"one byte":   {byte(ib.TMRendezvous)},
		"cut RVH":    rendezvous(10)[:31],
		"no RVH":     rndv.Append(nil),
		"long":       long,
		"operation":  ib.TMH{Op: ib.TMEager + 1}.Append(nil),
		"the last":   ib.TMH{Op: 255, Tag: 5}.Append(nil),
		"cut of FIN": {byte(ib.TMFin), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatcher(t)
			m.PostRecv(0, 2000)
			m.add(50, 5, 4000, 100)
			m.Recv(script.Request(wire.RCSendOnly, peerPSN, payload))
			m.wantNAK("refused", wire.NAKInvalidRequest)
			m.WantState("ended", ib.QPErr)
			m.wantNoWC("no receive was taken")
		})
	}
}

// A rendezvous of several packets is refused, whatever they hold.
func TestTagRendezvousOfSeveralPackets(t *testing.T) {
	m := newMatcher(t)
	m.add(50, 5, 0, 2000)
	m.Recv(script.Request(wire.RCSendFirst, peerPSN, append(rendezvous(10), make([]byte, 1024-32)...)))
	m.wantNAK("refused", wire.NAKInvalidRequest)
	m.wantNoWC("no receive was taken")
}

func TestTagEagerTooLong(t *testing.T) {
	m := newMatcher(t)
	m.add(50, 5, 0, 10)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, append(eager(5).Append(nil), make([]byte, 11)...)))
	m.wantNAK("refused", wire.NAKInvalidRequest)
	m.wantWC("error", ib.WC{WRID: 50, Status: ib.WCLocLenErr})
	m.WantUntouched("nothing", 0, 10)
}

// The peer refuses the key of its own rendezvous.
func TestTagRendezvousRefused(t *testing.T) {
	m := newMatcher(t)
	m.add(50, 5, 0, 3000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, rendezvous(1500)))
	m.wantWC("matched", matched(50, rndv, 1500, ib.WCTMMatch))
	m.WantDrain("acknowledged and READ", 2)
	m.Recv(script.Nak(psn, wire.NAKRemoteAccess))
	m.wantWC("refused", ib.WC{WRID: 50, Status: ib.WCRemAccessErr, Flags: ib.WCTMDataValid})
	m.wantNoWC("of a FIN")
	m.WantState("ended", ib.QPErr)
}

// A queue pair that ends in the middle gives its receives back.
func TestTagDies(t *testing.T) {
	m := newMatcher(t)
	m.add(50, 5, 0, 3000)
	m.add(51, 5, 4000, 3000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, rendezvous(1500)))
	m.wantWC("matched", matched(50, rndv, 1500, ib.WCTMMatch))
	m.Recv(script.Request(wire.RCSendFirst, peerPSN+1, append(eager(5).Append(nil), make([]byte, 1008)...)))
	m.wantWC("matched", matched(51, eager(5), 0, ib.WCTMMatch))
	m.SetState(ib.QPErr)
	m.wantWC("rendezvous", ib.WC{WRID: 50, Status: ib.WCWRFlushErr, Flags: ib.WCTMDataValid})
	m.wantWC("eager", ib.WC{WRID: 51, Status: ib.WCWRFlushErr})
	m.wantNoWC("no more")
	m.SetState(ib.QPReset)
	m.Connect()
	m.add(52, 5, 0, 3000)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN, eager(5).Append(nil)))
	m.wantWC("again", matched(52, eager(5), 0, both))
}

// An unexpected message that ends before its completion is not one that the application handles.
// Tags of other queue pairs would wait for it for ever.
func TestTagUnexpectedLost(t *testing.T) {
	first := append(eager(9).Append(nil), make([]byte, 1008)...)
	for name, end := range map[string]func(m *matcher){
		"error":     func(m *matcher) { m.SetState(ib.QPErr) },
		"reset":     func(m *matcher) { m.SetState(ib.QPReset) },
		"destroyed": func(m *matcher) { m.Machine.(roce.Acknowledged).Discard() },
		"too long":  func(m *matcher) { m.Recv(script.Request(wire.RCSendLast, peerPSN+1, make([]byte, 900))) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatcher(t)
			m.PostRecv(0, 1500)
			m.Recv(script.Request(wire.RCSendFirst, peerPSN, first))
			m.add(90, 9, 4000, 100)
			if n, enabled := m.tags.Len(); n != 1 || enabled != 0 {
				t.Fatalf("%d tags, %d match; it may be unexpected", n, enabled)
			}
			end(m)
			if n, enabled := m.tags.Len(); n != 1 || enabled != 1 {
				t.Errorf("%d tags, %d match", n, enabled)
			}
		})
	}
}

// A peer that announces more than the send queue holds is told to wait, and its tags stay.
func TestTagRendezvousFull(t *testing.T) {
	m := newMatcher(t)
	for i := range rc.MaxRendezvous {
		m.add(uint64(i), 5, 0, 100)
		m.Recv(script.Request(wire.RCSendOnly, peerPSN.Add(uint32(i)), rendezvous(10)))
		m.wantWC("matched", matched(uint64(i), rndv, 10, ib.WCTMMatch))
	}
	m.add(99, 5, 0, 100)
	m.Recv(script.Request(wire.RCSendOnly, peerPSN.Add(rc.MaxRendezvous), rendezvous(10)))
	m.wantNoWC("full")
	m.WantCount("told to wait", roce.SentRNRNAK, 1)
	if n, _ := m.tags.Len(); n != 1 {
		t.Errorf("%d tags are left, want 1", n)
	}
}
