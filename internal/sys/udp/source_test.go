// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"
)

func TestSourcePortsDifferThenAreShared(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		p := NewSourcePool(addr, o)
		p.most = MaxSources // as of an address that is not a loopback one
		defer p.Close()
		var got []*Source
		ports := map[uint16]int{}
		for flow := range uint32(2 * MaxSources) {
			s, err := p.Acquire(flow)
			if err != nil {
				t.Fatal(err)
			}
			port := s.LocalAddr().Port()
			if port < SourcePortMin {
				t.Errorf("source port %d is not in the dynamic range", port)
			}
			ports[port]++
			got = append(got, s)
		}
		if len(ports) != MaxSources {
			t.Errorf("%d flows use %d ports, want %d", len(got), len(ports), MaxSources)
		}
		rx := listen(t, addr, o)
		writeAll(t, got[0].Socket, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("x")}})
		if _, m := receive(t, rx, 1); m.Src != got[0].LocalAddr() {
			t.Errorf("datagram came from %v, want %v", m.Src, got[0].LocalAddr())
		}
		for _, s := range got {
			if err := s.Release(); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range p.slot {
			if s != nil {
				t.Errorf("slot %d is still open after the last release", i)
			}
		}
	})
}

// A flow that comes again gets the socket that it has.
func TestSourceOfAFlowIsOne(t *testing.T) {
	p := NewSourcePool(netip.MustParseAddr("127.0.0.1"), Options{})
	p.most = MaxSources // as of an address that is not a loopback one
	defer p.Close()
	var got []*Source
	for _, flow := range []uint32{1, 2, 1, 1, 2} {
		s, err := p.Acquire(flow)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if got[0] == got[1] || got[2] != got[0] || got[3] != got[0] || got[4] != got[1] {
		t.Error("two flows share a socket, or one has two")
	}
	for _, s := range got {
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if p.open != 0 {
		t.Errorf("%d are open after the last release", p.open)
	}
}

// TestSourcesOfLoopbackAreOne has any number of flows take one descriptor.
func TestSourcesOfLoopbackAreOne(t *testing.T) {
	p := NewSourcePool(netip.MustParseAddr("127.0.0.1"), Options{})
	defer p.Close()
	var got []*Source
	for flow := range uint32(40) {
		s, err := p.Acquire(flow)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, s); s != got[0] {
			t.Fatalf("flow %d has another socket", flow)
		}
	}
	for _, s := range got {
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if p.open != 0 {
		t.Errorf("%d are open after the last release", p.open)
	}
}

// Queue pairs of many processes that have one peer are one flow, as far as their numbers go. (The
// 17th process at an address had no source port, and could not connect.)
func TestProcessesOfOneFlowHavePorts(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		ports := map[uint16]bool{}
		for process := range 100 {
			p := NewSourcePool(addr, o)
			defer p.Close()
			s, err := p.Acquire(7)
			if err != nil {
				t.Fatalf("process %d: %v", process, err)
			}
			defer s.Release()
			ports[s.LocalAddr().Port()] = true
		}
		if len(ports) != 100 {
			t.Errorf("100 processes have %d ports", len(ports))
		}
	})
}

func TestSourceDropsInput(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(a)
		p := NewSourcePool(addr, Options{})
		s, err := p.Acquire(1)
		if err != nil {
			t.Fatal(err)
		}
		tx := listen(t, addr, Options{})
		writeAll(t, tx, Datagrams{Dst: s.LocalAddr(), Iov: [][]byte{[]byte("x")}})
		if n, err := s.ReadBatch(NewRxBatch()); n != 0 || err != nil {
			t.Errorf("%v: a source received %d messages, %v", addr, n, err)
		}
		s.Release()
		if _, err := p.Acquire(1); err != nil {
			t.Errorf("acquire after release: %v", err)
		}
		p.Close()
		if _, err := p.Acquire(2); err == nil {
			t.Error("a closed pool gave a source")
		}
	}
}
