// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"syscall"
	"testing"

	"verbena/ib"
)

// A process exits with work in progress. Its peers learn at once of an end that they would
// otherwise find out by time-outs, or never.
func TestLeaveTellsEveryPeer(t *testing.T) {
	t.Run("connection", func(t *testing.T) {
		f := newFabric(t)
		client, server := f.connected(TCP, ib.QPTypeRC, loopback4)
		f.nodes[1].releaseAll()
		server.want(Disconnected)
		check(t, server.Disconnect())
		server.want(TimewaitExit)
		// Threads that still run are not to take it for a failure.
		if s := client.QP().State(); s != ib.QPRTS {
			t.Errorf("queue pair in %v", s)
		}
		if ev := client.ch.TryGet(); ev != nil {
			t.Errorf("%v", ev.Type)
		}
	})
	t.Run("peer's DREQ", func(t *testing.T) {
		f := newFabric(t)
		client, server := f.connected(TCP, ib.QPTypeRC, loopback4)
		check(t, client.Disconnect())
		server.want(Disconnected)
		f.nodes[2].releaseAll()
		client.want(Disconnected)
	})
	t.Run("request to it", func(t *testing.T) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listening(TCP, loopback4)
		client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
		check(t, client.Connect(&someParam))
		f.own(l.want(ConnectRequest).ID, l.ch)
		b.releaseAll()
		var re *RejectedError
		if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectConsumer {
			t.Errorf("rejected with %v", ev.Err)
		}
	})
	t.Run("request of its own", func(t *testing.T) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listening(TCP, loopback4)
		client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
		check(t, client.Connect(&someParam))
		server, _ := f.requested(l)
		a.releaseAll()
		server.wantGivenUp()
	})
	t.Run("datagrams", func(t *testing.T) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listening(UDP, loopback4)
		client := a.resolved(UDP, l.LocalAddr())
		check(t, client.Connect(&ConnParam{QPType: ib.QPTypeUD}))
		f.own(l.want(ConnectRequest).ID, l.ch)
		b.releaseAll()
		if ev := client.want(Unreachable); !errors.Is(ev.Err, syscall.ECONNREFUSED) {
			t.Errorf("unreachable with %v", ev.Err)
		}
	})
}

// A process that has no connections has nobody to tell.
func TestLeaveWithoutConnections(t *testing.T) { Leave() }
