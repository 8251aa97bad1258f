// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/udp"
)

// sendToParts sends count datagrams to each part of a process's slot.
func (n *network) sendToParts(t *testing.T, p *process, count int) {
	t.Helper()
	for i := range count {
		for part := range Parts {
			q := ib.QPN(shareOf(p.slot, part))<<partShift | ib.QPN(2+i)
			n.send(t, n.a, datagram(q, 0, "data"))
		}
	}
}

// A part's datagrams come to the process's first socket until they are steered to that of the part.
// Those of other parts, and of other processes, stay where they were. A keeper that is killed
// changes nothing.
func TestPartHasItsSocket(t *testing.T) {
	inBothPlaces(t, func(t *testing.T) {
		n := newNetwork(t, 61)
		ps := startMany(t, n.dir, 3)
		for _, p := range ps {
			p.must("", "socket %v", n.a)
		}
		if got := ps[0].ask("steer %v 1", n.a); !strings.Contains(got, unix.EINVAL.Error()) {
			t.Errorf("a part without a socket is steered to: %q", got)
		}
		if got := ps[0].ask("part %v 1", n.b); !strings.Contains(got, unix.EINVAL.Error()) {
			t.Errorf("a part of an address without a socket: %q", got)
		}
		for _, p := range ps {
			p.must("", "part %v 1", n.a)
			n.sendToParts(t, p, 10)
			p.must("0", "read %v %d", n.a, 10*Parts)
			p.must("", "steer %v 1", n.a)
			p.must("", "steer %v 1", n.a) // as a member that asks two keepers
		}
		ps[0].must("", "part %v 2", n.a)
		ps[0].must("", "steer %v 2", n.a)
		want := func(ps []*process, own ...int) {
			t.Helper()
			for _, p := range ps {
				n.sendToParts(t, p, 10)
			}
			for i, p := range ps {
				for part := 1; part <= own[i]; part++ {
					p.must("0", "read-part %v %d 10", n.a, part)
				}
				p.must("0", "read %v %d", n.a, 10*(Parts-own[i]))
				p.must("0", "pending %v", n.a)
			}
		}
		want(ps, 2, 1, 1)
		for range 2 {
			others := n.killKeeper(t, ps)
			own := []int{2, 1, 1}[3-len(others):]
			if len(others) < len(ps) && others[0] == ps[0] {
				own[0] = 2
			}
			want(others, own...) // while there is no keeper, or a new one
			for i, p := range others {
				p.must("", "listen key-%d-%d", p.slot, i) // waits for the new keeper
				p.must("", "told")
				p.must("", "unlisten key-%d-%d", p.slot, i)
			}
			want(others, own...)
			if len(others) < len(ps) {
				break
			}
		}
	})
}

// The next owner of a slot has all of its datagrams in its first socket, until it asks for a part.
// So it is if the keeper that knew of the last owner's parts has died too.
func TestPartsOfLastOwner(t *testing.T) {
	n := newNetwork(t, 63)
	rest := start(t, n.dir)
	rest.must("", "socket %v", n.a)
	dead := start(t, n.dir)
	for range 2 {
		dead.must("", "socket %v", n.a)
		for part := range Parts {
			dead.must("", "part %v %d", n.a, part)
			dead.must("", "steer %v %d", n.a, part)
		}
		n.sendToParts(t, dead, 5) // nobody reads them
		dead.kill()
		next := start(t, n.dir)
		for range 10 * firstSpan {
			if next.slot == dead.slot {
				break
			}
			next.must("", "close")
			next.kill()
			next = start(t, n.dir)
		}
		if next.slot != dead.slot {
			t.Fatalf("slot %d does not come again", dead.slot)
		}
		next.must("", "socket %v", n.a)
		n.sendToParts(t, next, 10)
		next.must("0", "read %v %d", n.a, 10*Parts)
		n.killKeeper(t, []*process{rest, next})
		for _, p := range []*process{rest, next} {
			p.must("", "listen key-%d", p.slot)
			p.must("", "unlisten key-%d", p.slot)
		}
		n.sendToParts(t, next, 10)
		next.must("0", "read %v %d", n.a, 10*Parts)
		next.must("", "part %v 3", n.a)
		next.must("", "steer %v 3", n.a)
		n.sendToParts(t, next, 10)
		next.must("0", "read-part %v 3 10", n.a)
		next.must("0", "read %v %d", n.a, 10*(Parts-1))
		next.must("0", "pending %v", n.a)
		dead = next
	}
}

// A keeper of an older version knows no parts. The process goes on with the one socket, and names
// no part to the next keeper.
func TestOlderKeeperHasNoParts(t *testing.T) {
	e, m := joinEphemeral(t)
	refused := make(chan error, 2)
	go func() {
		_, err := m.Part(netip.MustParseAddr("127.0.0.1"), 1)
		refused <- err
		refused <- m.SteerPart(netip.MustParseAddr("127.0.0.1"), 1)
	}()
	for _, k := range []kind{kindPart, kindSteer} {
		e.send(frame{Kind: kindAnswer, ID: e.want(k).ID, Err: "function not implemented", Errno: unix.ENOSYS})
		if err := <-refused; !errors.Is(err, unix.ENOSYS) {
			t.Errorf("%s: %v", k, err)
		}
	}
	e.conn.Close()
	if claim := e.welcome(kindClaim); len(claim.Parts) > 0 {
		t.Errorf("the next keeper is told of parts %v", claim.Parts)
	}
}

// A member that has left sets no filter on its sockets: their descriptors may be another file's.
func TestLeftMemberKeepsItsHandsOff(t *testing.T) {
	_, joined := joinEphemeral(t)
	m := joined.(*member)
	s, err := udp.Listen(netip.MustParseAddr("127.0.0.1"), 0, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.sockets[s.LocalAddr().Addr()] = s
	m.mu.Unlock()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.reading(s); err != errClosed || len(m.read) > 0 {
		t.Errorf("%v, %d sockets read", err, len(m.read))
	}
	if _, err := m.Socket(s.LocalAddr().Addr()); err != errClosed {
		t.Errorf("a socket of a member that has left: %v", err)
	}
}
