// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"net/netip"
	"testing"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// A pair is two ends with a stream that a test moves bytes along, at a time
// that it says.
type pair struct {
	t        *testing.T
	now      monotime.Time
	listener *Listener
	a, b     *Conn // active and passive
	countA   Counters
	countB   Counters
}

var (
	someAddr = netip.MustParseAddr("10.78.0.2")
	someRTR  = mpa.RTRs(mpa.RTRWrite, mpa.RTRRead)
	someEnd  = mpa.Options{CRC: true, IRD: 4, ORD: 2, RTR: someRTR, Extensions: true}
)

// dial returns an end that has dialled, and a listener.
func dial(t *testing.T, o mpa.Options) *pair {
	t.Helper()
	p := &pair{t: t}
	p.listener = NewListener(0, maxStrangers, &p.countB)
	a, err := Dial(p.now, o, &p.countA)
	if err != nil {
		t.Fatal(err)
	}
	p.a = a
	p.wantState(p.a, Connecting)
	return p
}

// connected brings the stream up, and the Request across it.
func (p *pair) connected(o mpa.Options) {
	p.t.Helper()
	p.a.HandleConnected(p.now)
	p.b, _ = p.listener.Take(p.now, someAddr, o)
	p.wantState(p.b, Awaiting)
	p.carry(p.a, p.b)
}

// requested brings it so far that the application has the request.
func requested(t *testing.T, a, b mpa.Options) *pair {
	t.Helper()
	p := dial(t, a)
	p.connected(b)
	p.wantState(p.b, Requested)
	if c := p.listener.Next(); c != p.b {
		t.Fatalf("the request is of %p, want %p", c, p.b)
	}
	return p
}

// carry moves one end's output to the other, byte by byte.
func (p *pair) carry(from, to *Conn) {
	for b, ok := from.PollOutput(); ok; b, ok = from.PollOutput() {
		for i := range b {
			to.HandleInput(p.now, b[i:i+1])
		}
	}
}

func (p *pair) wantState(c *Conn, s State) {
	p.t.Helper()
	if c.State() != s {
		p.t.Fatalf("state %v, want %v", c.State(), s)
	}
}

// wantEvent wants one event and no other.
func (p *pair) wantEvent(c *Conn, kind EventKind, f Fault, private string) {
	p.t.Helper()
	ev, ok := c.PollEvent()
	if !ok || ev.Kind != kind || ev.Fault != f || string(ev.PrivateData) != private {
		p.t.Fatalf("event %v %v %q, want %v %v %q", ev.Kind, ev.Fault, ev.PrivateData, kind, f, private)
	}
	p.wantNoEvent(c)
}

func (p *pair) wantNoEvent(c *Conn) {
	p.t.Helper()
	if ev, ok := c.PollEvent(); ok {
		p.t.Fatalf("event %v %v", ev.Kind, ev.Fault)
	}
}

// over wants a connection that is closed and leaves nothing behind.
func (p *pair) over(c *Conn, w Want) {
	p.t.Helper()
	p.wantState(c, Closed)
	if c.Want() != w || c.NextTimeout() != monotime.Never {
		p.t.Errorf("the stream is to be %v, want %v; timer %v", c.Want(), w, c.NextTimeout())
	}
	if n := len(p.listener.strangers) + len(p.listener.pending); n != 0 {
		p.t.Errorf("the listener holds %d connections", n)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
