// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// A region that is taken back while the link begins afresh is not free before
// the peer knows that it does: it may be about to write there.
func TestWithdrawnInANewSession(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	at, _ := y.node.own.pool.take(4096)
	buf, _ := y.own.Bytes(at, 4096)
	mr, err := y.table.Register(pd, buf, base, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.node.Expose(mr, Piece(at, 4096)); err != nil {
		t.Fatal(err)
	}
	p.carry()
	want := x.fill(0, 4096, 6)
	w := x.write(0, 4096, y, 0)
	w.RKey = mr.RKey()
	y.node.Reset(p.now)
	y.node.Withdraw(p.now, mr)
	x.push(w)
	for x.node.PollOutput(p.now, p.a.batch) { // as a process does that has not looked yet
		if err := p.a.batch.Apply(p.b.own.Far()); err != nil {
			t.Fatal(err)
		}
		p.a.batch.Reset()
	}
	if string(buf) != string(want) {
		t.Fatal("this test is to have it written: it shows nothing")
	}
	if y.node.Withdrawn(p.now, mr) {
		t.Error("withdrawn, and the peer writes")
	}
	p.carry()
	if !y.node.Withdrawn(p.now, mr) {
		t.Error("not withdrawn, and the peer knows of the new session")
	}
	y.node.Reset(p.now)
	if !y.node.Withdrawn(p.now, mr) || len(y.node.regions) != 0 {
		t.Error("a region that is withdrawn is remembered")
	}
}

// A peer whose heart beats and that answers nothing does not hold up a region's withdrawal for
// ever: the session ends, and the time for noticing that.
func TestPeerThatDoesNotAnswer(t *testing.T) {
	p := newPair(t)
	n := p.b.node
	at, _ := n.own.pool.take(4096)
	buf, _ := p.b.own.Bytes(at, 4096)
	mr, err := p.b.table.Register(pd, buf, base, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Expose(mr, Piece(at, 4096)); err != nil {
		t.Fatal(err)
	}
	p.carry()
	n.Withdraw(p.now, mr)
	from := p.now
	for ping := uint32(1000); !n.Withdrawn(p.now, mr); ping++ {
		if p.now.Sub(from) > 10*monotime.Second {
			t.Fatal("never withdrawn")
		}
		p.now = p.now.Add(50 * monotime.Millisecond)
		p.b.own.Store4(wire.OffPing, ping)
		n.HandleTimeout(p.now)
		for n.PollOutput(p.now, p.b.batch) {
			if err := p.b.batch.Apply(p.a.own.Far()); err != nil {
				t.Fatal(err)
			}
			p.b.batch.Reset()
		}
	}
	if d := p.now.Sub(from); d < commandLimit || n.Count[CommandLate] != 1 {
		t.Errorf("after %v; %d commands were late", d, n.Count[CommandLate])
	}
	p.now = p.now.Add(60 * monotime.Second) // both stood still
	p.pass(monotime.Second)
	if !n.Up() || n.Count[CommandLate] != 1 {
		t.Errorf("the link is %v, %d commands were late", n.ch.State(), n.Count[CommandLate])
	}
}
