// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

func TestConnectionFromRequestToEnd(t *testing.T) {
	ask := someEnd
	ask.PrivateData = []byte("hello")
	p := requested(t, ask, someEnd)
	ird, ord, said := p.b.Depths()
	if string(p.b.PrivateData()) != "hello" || ird != 4 || ord != 2 || !said {
		t.Errorf("requested with %q, depths %d %d %v", p.b.PrivateData(), ird, ord, said)
	}
	check(t, p.b.Accept(p.now, 2, 4, []byte("welcome")))
	p.wantNoEvent(p.b) // the two settled on a ready-to-receive message
	p.wantState(p.b, Answered)
	p.carry(p.b, p.a)
	p.wantEvent(p.a, EventReply, FaultNone, "welcome")
	sa, early := p.a.HandOver()
	sb, _ := p.b.HandOver()
	want := mpa.Settled{CRC: true, Extensions: true, IRD: 4, ORD: 2, RTR: mpa.RTRRead}
	if sa != want || len(early) != 0 {
		t.Errorf("the active end settled %+v, early %x", sa, early)
	}
	if want.IRD, want.ORD = 2, 4; sb != want {
		t.Errorf("the passive end settled %+v", sb)
	}
	check(t, p.a.Establish())
	p.b.HandleReady()
	p.wantEvent(p.b, EventEstablished, FaultNone, "")
	p.b.HandleReady() // once is enough
	p.wantNoEvent(p.b)

	p.a.HandleEnd(FaultNone)
	p.b.HandleEnd(FaultReset)
	p.wantEvent(p.a, EventDisconnected, FaultNone, "")
	p.wantEvent(p.b, EventDisconnected, FaultReset, "")
	p.a.HandleEnd(FaultReset)
	p.wantNoEvent(p.a)
	p.over(p.a, KeepOpen)
	p.over(p.b, KeepOpen)
	if p.countA[Dialed] != 1 || p.countA[Connections] != 1 || p.countB[Requests] != 1 || p.countB[Connections] != 1 {
		t.Errorf("counted %v and %v", p.countA, p.countB)
	}
}

// In client-server mode the responder's application need not wait: its queue
// pair does.
func TestEstablishedAtOnceWithoutReadyToReceive(t *testing.T) {
	ask := someEnd
	ask.RTR = 0
	p := requested(t, ask, someEnd)
	check(t, p.b.Accept(p.now, 4, 4, nil))
	p.wantEvent(p.b, EventEstablished, FaultNone, "")
	if p.b.NextTimeout() != monotime.Never {
		t.Error("a timer runs")
	}
}

// A READ of no bytes takes the place of a READ: an end that may have none does
// not offer it.
func TestNoREADAsReadyToReceiveWithoutDepth(t *testing.T) {
	ask := someEnd
	ask.ORD = 0
	p := requested(t, ask, someEnd)
	check(t, p.b.Accept(p.now, 4, 4, nil))
	if s, _ := p.b.HandOver(); s.RTR != mpa.RTRWrite {
		t.Errorf("settled on %v", s.RTR)
	}
}

func TestRejectBringsPrivateData(t *testing.T) {
	p := requested(t, someEnd, someEnd)
	check(t, p.b.Reject([]byte("no thanks")))
	p.carry(p.b, p.a)
	p.wantEvent(p.a, EventRejected, FaultNone, "no thanks")
	p.wantNoEvent(p.b)
	p.over(p.a, WantShut)
	p.over(p.b, WantShut)
	if p.countA[RejectedBy] != 1 || p.countB[Rejected] != 1 {
		t.Errorf("counted %v and %v", p.countA, p.countB)
	}
}

func TestPrivateDataFillsTheFrame(t *testing.T) {
	for _, c := range []struct {
		revision uint8
		most     int
	}{{1, 512}, {2, 508}} {
		ask := mpa.Options{Revision: c.revision, PrivateData: bytes.Repeat([]byte{1}, c.most)}
		p := requested(t, ask, someEnd)
		if !bytes.Equal(p.b.PrivateData(), ask.PrivateData) {
			t.Errorf("revision %d: %d bytes arrived", c.revision, len(p.b.PrivateData()))
		}
		long := make([]byte, c.most+1)
		if err := p.b.Accept(p.now, 1, 1, long); !errors.Is(err, mpa.ErrPrivateData) {
			t.Errorf("revision %d: accepted with %d bytes: %v", c.revision, len(long), err)
		}
		if err := p.b.Reject(long); !errors.Is(err, mpa.ErrPrivateData) {
			t.Errorf("revision %d: rejected with %d bytes: %v", c.revision, len(long), err)
		}
		p.wantState(p.b, Requested)
		check(t, p.b.Accept(p.now, 1, 1, long[1:]))
		p.carry(p.b, p.a)
		p.wantEvent(p.a, EventReply, FaultNone, string(long[1:]))
		ask.PrivateData = long
		if _, err := Dial(0, ask, &p.countA); !errors.Is(err, mpa.ErrPrivateData) {
			t.Errorf("revision %d: dialled with %d bytes: %v", c.revision, len(long), err)
		}
	}
}

// A peer of the first RFC accepts or rejects an unknown revision with revision 1. It is asked
// again, once.
func TestPeerOfRevision1IsAskedAgain(t *testing.T) {
	for name, reply := range map[string]wire.MPAFrame{
		"accepts": {Reply: true, Revision: 1}, "rejects": {Reply: true, Revision: 1, Reject: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, someEnd)
			p.a.HandleConnected(p.now)
			p.a.PollOutput()
			p.a.HandleInput(p.now, reply.Append(nil))
			p.wantState(p.a, Connecting)
			p.wantNoEvent(p.a)
			if p.a.Want() != WantRedial {
				t.Fatalf("wants %v", p.a.Want())
			}
			p.a.HandleRedial()
			p.a.HandleConnected(p.now)
			req, _ := p.a.PollOutput()
			f, _, ok := wire.ParseMPAFrame(req)
			if !ok || f.Revision != 1 || f.IsEnhanced || p.a.Want() != KeepOpen {
				t.Fatalf("asked again with %+v, %v", f, ok)
			}
			p.a.HandleInput(p.now, reply.Append(nil))
			if reply.Reject {
				p.wantEvent(p.a, EventRejected, FaultNone, "")
			} else {
				p.wantEvent(p.a, EventReply, FaultNone, "")
			}
			if p.countA[Redialed] != 1 {
				t.Errorf("counted %v", p.countA)
			}
		})
	}
}

// Nobody listens yet: the peer is asked again until it does, or for half a second.
func TestRefusedPeerIsAskedAgain(t *testing.T) {
	p := dial(t, someEnd)
	for range 3 {
		p.a.HandleClose(p.now, FaultRefused)
		p.wantState(p.a, Connecting)
		p.wantNoEvent(p.a)
		if p.a.Want() != KeepOpen {
			t.Fatalf("wants %v at once", p.a.Want())
		}
		if p.now = p.now.Add(refusedWait); p.a.NextTimeout() != p.now {
			t.Fatalf("waits until %v", p.a.NextTimeout())
		}
		p.a.HandleTimeout(p.now)
		if p.a.Want() != WantRedial {
			t.Fatalf("wants %v", p.a.Want())
		}
		p.a.HandleRedial()
	}
	p.a.HandleConnected(p.now)
	p.wantState(p.a, Requesting)
	if p.countA[Redialed] != 3 {
		t.Errorf("counted %v", p.countA)
	}
}

func TestFaultsOfTheActiveEnd(t *testing.T) {
	reply := wire.MPAFrame{Reply: true, Revision: 2, IsEnhanced: true, Enhanced: wire.Enhanced{IRD: 4, ORD: 1, PeerToPeer: true, WriteRTR: true}}
	greedy, mute := reply, reply
	greedy.Enhanced.ORD = 5
	mute.Enhanced.WriteRTR = false
	for _, c := range []struct {
		name   string
		do     func(p *pair)
		fault  Fault
		want   Want
		output bool // a Terminate tells the peer
	}{
		{"nobody listens", func(p *pair) { p.a.HandleClose(p.now.Add(refusedRetry), FaultRefused) }, FaultRefused, WantAbort, false},
		{"no route", func(p *pair) { p.a.HandleClose(p.now, FaultUnreachable) }, FaultUnreachable, WantAbort, false},
		{"SYN unanswered", func(p *pair) { p.pass(p.a) }, FaultTimeout, WantAbort, false},
		{"Request unanswered", func(p *pair) { p.up(); p.pass(p.a) }, FaultTimeout, WantShut, false},
		{"closed", func(p *pair) { p.up(); p.a.HandleClose(p.now, FaultReset) }, FaultReset, WantAbort, false},
		{"garbage", func(p *pair) { p.up(); p.a.HandleInput(p.now, []byte("HTTP/1.1 400")) }, FaultProtocol, WantShut, false},
		{"a Request", func(p *pair) { p.up(); p.a.HandleInput(p.now, wire.MPAFrame{Revision: 2}.Append(nil)) }, FaultProtocol, WantShut, false},
		{"revision 3", func(p *pair) { p.up(); p.a.HandleInput(p.now, wire.MPAFrame{Reply: true, Revision: 3}.Append(nil)) }, FaultRevision, WantShut, false},
		{"too many READs", func(p *pair) { p.up(); p.a.HandleInput(p.now, greedy.Append(nil)) }, FaultDepths, WantShut, true},
		{"no kind of RTR", func(p *pair) { p.up(); p.a.HandleInput(p.now, mute.Append(nil)) }, FaultRTR, WantShut, true},
		{"the queue pair fails", func(p *pair) {
			p.up()
			p.a.HandleInput(p.now, reply.Append(nil))
			p.wantEvent(p.a, EventReply, FaultNone, "")
			p.a.HandOver()
			p.a.Fail()
		}, FaultLocal, KeepOpen, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dial(t, someEnd)
			c.do(p)
			p.wantEvent(p.a, EventFailed, c.fault, "")
			if _, ok := p.a.PollOutput(); ok != c.output && c.want == WantShut {
				t.Errorf("output %v, want %v", ok, c.output)
			}
			if c.fault == FaultLocal {
				p.wantState(p.a, Closed)
			} else {
				p.over(p.a, c.want)
			}
			if p.countA.Fault(c.fault) != 1 {
				t.Errorf("counted %v", p.countA)
			}
			p.a.HandleInput(p.now, []byte("late"))
			p.a.HandleClose(p.now, FaultReset)
			p.a.HandleTimeout(p.now.Add(100 * monotime.Second))
			p.wantNoEvent(p.a)
			var wrong *StateError
			if err := p.a.Establish(); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "closed") {
				t.Errorf("established: %v", err)
			}
		})
	}
}

// up opens the stream of the active end, which has written its Request.
func (p *pair) up() {
	p.a.HandleConnected(p.now)
	p.a.PollOutput()
}

// pass lets the time of a connection's timer come, and not a moment earlier.
func (p *pair) pass(c *Conn) {
	p.t.Helper()
	at := c.NextTimeout()
	if at == monotime.Never {
		p.t.Fatal("no timer runs")
	}
	c.HandleTimeout(at - 1)
	p.wantNoEvent(c)
	p.now = at
	c.HandleTimeout(at)
}
