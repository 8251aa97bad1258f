// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"verbena/internal/iwarp/mpa"
	wire "verbena/internal/wire/iwarp"
)

func TestBadInputOnAListeningPort(t *testing.T) {
	request := wire.MPAFrame{Revision: 2, IsEnhanced: true}
	for _, c := range []struct {
		name  string
		input []byte
		fault Fault
	}{
		{"not MPA", []byte("GET / HTTP/1.1\r\n"), FaultProtocol},
		{"a Reply", wire.MPAFrame{Reply: true, Revision: 2}.Append(nil), FaultProtocol},
		{"revision 0", wire.MPAFrame{Revision: 0}.Append(nil), FaultRevision},
		{"revision 7", wire.MPAFrame{Revision: 7}.Append(nil), FaultRevision},
		{"a rejecting Request", wire.MPAFrame{Revision: 1, Reject: true}.Append(nil), FaultProtocol},
		{"more private data than there can be", append([]byte("MPA ID Req Frame\x00\x01\x02\x01"), make([]byte, 513)...), FaultProtocol},
		{"enhanced data cut short", []byte("MPA ID Req Frame\x10\x02\x00\x03\x00\x00\x00"), FaultProtocol},
		{"bytes behind the Request", append(request.Append(nil), 0), FaultProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &pair{t: t}
			p.listener = NewListener(4, maxStrangers, &p.countB)
			var refused []Fault
			p.listener.Refused = func(_ *Conn, why Fault) { refused = append(refused, why) }
			p.b, _ = p.listener.Take(0, someAddr, someEnd)
			p.b.HandleInput(0, c.input)
			p.over(p.b, WantShut)
			p.wantNoEvent(p.b)
			if !slices.Equal(refused, []Fault{c.fault}) {
				t.Errorf("refused for %v, want %v", refused, c.fault)
			}
			if p.listener.Next() != nil || p.countB.Fault(c.fault) != 1 {
				t.Errorf("counted %v", p.countB)
			}
			if _, ok := p.b.PollOutput(); ok {
				t.Error("it is answered")
			}
		})
	}
}

// A peer that connects and sends nothing, or half a Request, is given up.
func TestHalfOpenIsGivenUp(t *testing.T) {
	for _, n := range []int{0, 19} {
		p := &pair{t: t}
		p.listener = NewListener(4, maxStrangers, &p.countB)
		p.b, _ = p.listener.Take(0, someAddr, someEnd)
		p.b.HandleInput(0, wire.MPAFrame{Revision: 1}.Append(nil)[:n])
		p.pass(p.b)
		p.over(p.b, WantShut)
		if p.countB.Fault(FaultTimeout) != 1 {
			t.Errorf("counted %v", p.countB)
		}
	}
}

func TestPeerGivesUpBeforeItIsAnswered(t *testing.T) {
	for name, gone := range map[string]func(p *pair){
		"closed": func(p *pair) { p.b.HandleClose(p.now, FaultReset) },
		"spoke":  func(p *pair) { p.b.HandleInput(p.now, []byte{0}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := requested(t, someEnd, someEnd)
			gone(p)
			p.wantNoEvent(p.b) // the application finds out when it answers
			var wrong *StateError
			if err := p.b.Accept(p.now, 1, 1, nil); !errors.As(err, &wrong) {
				t.Errorf("accepted: %v", err)
			}
			if err := p.b.Reject(nil); !errors.As(err, &wrong) {
				t.Errorf("rejected: %v", err)
			}
			p.b.Destroy()
			p.wantState(p.b, Closed)
		})
	}
}

// An accepted peer that does not speak, or goes, was never established.
func TestAcceptedPeerNeverSpeaks(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(p *pair)
		fault Fault
	}{
		"silent": {func(p *pair) { p.pass(p.b) }, FaultTimeout},
		"gone":   {func(p *pair) { p.b.HandleEnd(FaultNone) }, FaultReset},
	} {
		t.Run(name, func(t *testing.T) {
			p := requested(t, someEnd, someEnd)
			check(t, p.b.Accept(p.now, 4, 4, nil))
			p.b.HandOver()
			c.do(p)
			p.wantEvent(p.b, EventFailed, c.fault, "")
			p.b.HandleReady()
			p.wantNoEvent(p.b)
			p.wantState(p.b, Closed)
		})
	}
}

// come has n peers ask a listener.
func (p *pair) come(n int) (all []*Conn) {
	for range n {
		c, _ := p.listener.Take(p.now, someAddr, someEnd)
		c.HandleInput(p.now, wire.MPAFrame{Revision: 1}.Append(nil))
		all = append(all, c)
	}
	return all
}

// Requests beyond the backlog wait, in order, for those before them.
func TestBacklogHoldsRequestsBack(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(2, maxStrangers, &p.countB)
	peers := p.come(5)
	next := func(want *Conn) {
		t.Helper()
		if c := p.listener.Next(); c != want {
			t.Fatalf("next is %p, want %p", c, want)
		}
	}
	next(peers[0])
	next(peers[1])
	next(nil)
	check(t, peers[0].Accept(p.now, 1, 1, nil))
	peers[2].HandleClose(p.now, FaultReset) // gone while it was held back
	next(peers[3])
	next(nil)
	check(t, peers[3].Reject(nil))
	next(peers[4])
	peers[1].HandleClose(p.now, FaultReset)
	peers[4].Destroy()
	next(nil)
	peers[1].Destroy()
	if n := p.countB; n[Requests] != 5 || n[Rejected] != 2 || n.Fault(FaultReset) != 2 || len(p.listener.pending) != 0 {
		t.Errorf("counted %v, %d pending", n, len(p.listener.pending))
	}
}

// someOf is the n-th of many addresses.
func someOf(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}) }

// A peer that asks and goes, and comes again, has no more of the backlog for it.
func TestPeersThatComeAndGoCountOn(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(3, maxStrangers, &p.countB)
	heard := 0
	for _, c := range p.come(100) {
		if p.listener.Next() != nil {
			heard++
		}
		c.HandleClose(p.now, FaultReset)
	}
	if heard != 3 {
		t.Errorf("the application heard of %d requests", heard)
	}
}

// Slow or silent peers cannot keep others out: the oldest gives way.
func TestCrowdOfSilentPeers(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(2, maxStrangers, &p.countB)
	var silent []*Conn
	for i := range maxStrangers {
		c, dropped := p.listener.Take(p.now, someOf(i), someEnd)
		if dropped != nil {
			t.Fatal("one gave way while there was room")
		}
		silent = append(silent, c)
	}
	c, dropped := p.listener.Take(p.now, someAddr, someEnd)
	if dropped != silent[0] || dropped.Want() != WantAbort || dropped.State() != Closed || p.countB.Fault(FaultCrowded) != 1 {
		t.Fatalf("%p gave way, wants %v", dropped, dropped.Want())
	}
	c.HandleInput(p.now, wire.MPAFrame{Revision: 1}.Append(nil))
	if p.listener.Next() != c {
		t.Error("the one that asks is not heard")
	}
}

// However many come from one address, they take the place of none from another.
func TestCrowdFromOneAddress(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(2, 20, &p.countB)
	other, _ := p.listener.Take(p.now, someOf(1), someEnd)
	var crowd []*Conn
	for i := range 100 {
		c, dropped := p.listener.Take(p.now, someAddr, someEnd)
		crowd = append(crowd, c)
		if i < 10 && dropped != nil || i >= 10 && dropped != crowd[i-10] {
			t.Fatalf("to number %d %p gave way", i, dropped)
		}
	}
	other.HandleInput(p.now, wire.MPAFrame{Revision: 1}.Append(nil))
	if p.listener.Next() != other {
		t.Error("the one that asks is not heard")
	}
}

// Requests beyond the backlog are held for a while, as many as silent peers are.
func TestRequestsBeyondTheBacklogAreBounded(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(3, 20, &p.countB)
	var peers []*Conn
	for i := range 100 {
		c, dropped := p.listener.Take(p.now, someOf(i), someEnd)
		c.HandleInput(p.now, wire.MPAFrame{Revision: 1}.Append(nil))
		p.listener.Next()
		peers = append(peers, c)
		if want := i >= 23; (dropped != nil) != want || want && dropped != peers[i-20] {
			t.Fatalf("to number %d %p gave way", i, dropped)
		}
	}
	if n := len(p.listener.strangers); n != 20 || len(p.listener.pending) != 3 {
		t.Errorf("%d beyond the backlog, %d in it", n, len(p.listener.pending))
	}
	p.now = p.now.Add(strangerWait)
	for _, c := range peers {
		c.HandleTimeout(p.now)
	}
	if n := len(p.listener.strangers); n != 0 || p.countB.Fault(FaultTimeout) != 20 || peers[0].State() != Requested {
		t.Errorf("%d are there after %v, %v, the first is %v", n, strangerWait, p.countB, peers[0].State())
	}
}

func TestClosingAListenerRefusesWhatNobodyHasSeen(t *testing.T) {
	p := &pair{t: t}
	p.listener = NewListener(1, maxStrangers, &p.countB)
	peers := p.come(2)
	seen := p.listener.Next()
	silent, _ := p.listener.Take(p.now, someAddr, someEnd)
	gone := p.listener.Close()
	if len(gone) != 2 || gone[0] != peers[1] || gone[1] != silent || seen.State() != Requested {
		t.Fatalf("closed %d, the one that was seen is %v", len(gone), seen.State())
	}
	b, _ := peers[1].PollOutput()
	if f, _, ok := wire.ParseMPAFrame(b); !ok || !f.Reject || silent.Want() != WantAbort || peers[1].Want() != WantShut {
		t.Errorf("told %+v", f)
	}
	check(t, seen.Accept(p.now, 1, 1, nil)) // it outlives the listener
}

func TestDestroyTellsNobody(t *testing.T) {
	for _, c := range []struct {
		state State
		want  Want
	}{{Connecting, WantAbort}, {Requesting, WantAbort}, {Replied, WantAbort}, {Established, WantAbort}, {Closed, WantAbort}} {
		p := dial(t, someEnd)
		if c.state > Connecting {
			p.up()
		}
		if c.state > Requesting {
			p.a.HandleInput(p.now, wire.MPAFrame{Reply: true, Revision: 2}.Append(nil))
		}
		if c.state > Replied {
			check(t, p.a.Establish())
			p.a.PollEvent()
		}
		if c.state == Closed {
			p.a.HandleClose(p.now, FaultReset)
		}
		p.wantState(p.a, c.state)
		p.a.Destroy()
		p.wantNoEvent(p.a)
		p.over(p.a, c.want)
		p.a.HandleConnected(p.now)
		p.a.HandleEnd(FaultReset)
		p.wantNoEvent(p.a)
	}
}

// FuzzListeningPort sends anything, cut anywhere: no panic, and a connection
// that is over or waits with a timer.
func FuzzListeningPort(f *testing.F) {
	f.Add([]byte("MPA ID Req Frame\x10\x02\x00\x04\x80\x01\x40\x01"), 3)
	f.Add([]byte("MPA ID Req Frame\x00\x01\x00\x02ab"), 20)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		p := &pair{t: t}
		p.listener = NewListener(1, maxStrangers, &p.countB)
		p.b, _ = p.listener.Take(0, someAddr, mpa.Options{RTR: someRTR})
		if cut = max(1, cut); len(b) > 2048 {
			b = b[:2048]
		}
		for len(b) > 0 {
			n := min(cut, len(b))
			p.b.HandleInput(0, b[:n])
			b = b[n:]
		}
		switch p.b.State() {
		case Awaiting:
			p.pass(p.b)
			p.over(p.b, WantShut)
		case Requested:
			p.b.Destroy()
		case Closed:
			if p.b.Want() == KeepOpen {
				t.Error("closed, and the stream stays open")
			}
		default:
			t.Errorf("state %v", p.b.State())
		}
	})
}
