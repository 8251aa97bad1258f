// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// TestOwnPort lists datagrams that only a process of this user can have sent, and others.
func TestOwnPort(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		port     uint16
		own      bool
	}{
		{"127.0.0.1", "127.0.0.1", roce.UDPPort, true},
		{"192.0.2.1", "192.0.2.1", roce.UDPPort, true},
		{"::1", "::1", roce.UDPPort, true},
		{"2001:db8::1", "2001:db8::1", roce.UDPPort, false}, // Linux takes it from the network
		{"127.0.0.1", "127.0.0.1", 49152, false},            // a socket of any user
		{"127.0.0.2", "127.0.0.1", roce.UDPPort, false},     // the port of 127.0.0.2 may be another user's
	} {
		m := &roce.Meta{Src: netip.MustParseAddr(c.src), Dst: netip.MustParseAddr(c.dst), SrcPort: c.port}
		if got := ownPort(m); got != c.own {
			t.Errorf("from %v port %d to %v: %v", c.src, c.port, c.dst, got)
		}
	}
}

// TestManagerIsLeftAsleep: a command wakes the manager's goroutine only for an event before the
// goroutine's next timer.
func TestManagerIsLeftAsleep(t *testing.T) {
	m := &manager{refs: 1, random: func() uint64 { return 7 }}
	b := newIBManager(m, RoCE, unusedGSI{}, 1)
	b.planned = monotime.Now().Add(monotime.Second)
	b.agent.Repeat()
	if b.dueLocked() {
		t.Error("due without a message or an event")
	}
	path := ibcm.Path{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2")}
	connect := func() {
		t.Helper()
		if _, err := b.agent.Connect(monotime.Now(), ibcm.ConnectParams{Path: path, QPN: 17, PathMTU: 1}); err != nil {
			t.Fatal(err)
		}
		b.outputLocked(nil)
	}
	connect() // repeats its REQ after seconds
	if b.dueLocked() {
		t.Error("due for a time-out that comes later")
	}
	b.planned = monotime.Never
	if !b.dueLocked() {
		t.Error("not due, and the goroutine would sleep past the time-out")
	}
	b.planned, m.refs = monotime.Now(), 0
	if !b.dueLocked() {
		t.Error("not due after the last identifier, and the manager would not end")
	}
}

// unusedGSI is a gsi of a test that sends nothing.
type unusedGSI struct{ gsi }

func (unusedGSI) Slot() int { return 0 }

// TestMADsWaitForRoom has every second attempt to send a MAD find no room. None is lost: the peer
// would ask again only seconds later. Nor is any that a process sends as it leaves.
func TestMADsWaitForRoom(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	for _, p := range []*process{a, b} {
		var attempts atomic.Uint64
		p.full = func() bool { return attempts.Add(1)%2 == 1 }
	}
	l := b.listening(TCP, loopback4)
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	server := f.establish(client, l)
	a.releaseAll()
	server.want(Disconnected)
	check(t, server.Disconnect())
	server.want(TimewaitExit)
	for _, p := range []*process{a, b} {
		p.mu.Lock()
		if n := p.ib.agent.Counters()[ibcm.Retried]; n != 0 {
			t.Errorf("process %d sent %d MADs again", p.slot, n)
		}
		p.mu.Unlock()
	}
}
