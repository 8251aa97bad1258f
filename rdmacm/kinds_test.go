// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// kindUnderTest is a kind of devices and the way its connections differ. Their common behaviour is
// tested here, for all kinds but RoCE, which the other files test.
type kindUnderTest struct {
	Kind
	addrs []string // of the listener
	join  func(t *testing.T)

	connectBytes int // of private data, at most
	acceptBytes  int
	rejectBytes  int
	device       string // how the client's is called
	wrongSpaces  []PortSpace
	// datagram says that the port is bound, but silently accepts no peer.
	silent bool
	// exits says that the end of the queue pair's time-wait is reported.
	exits bool
}

var kinds = []kindUnderTest{
	{Kind: IWARP, addrs: []string{"127.0.0.1", "::1"}, connectBytes: 508, acceptBytes: 508, rejectBytes: 508, device: "iwarp_", wrongSpaces: []PortSpace{UDP, IB}},
	{Kind: TRP, addrs: []string{"127.0.0.1", "::1"}, connectBytes: 512, acceptBytes: 512, rejectBytes: 512, device: "trp_", wrongSpaces: []PortSpace{UDP, IB}, silent: true},
	{Kind: NTB, addrs: []string{"10.99.0.2"}, join: joinByMemory, connectBytes: 56, acceptBytes: 196, rejectBytes: 148, device: "ntb0", wrongSpaces: []PortSpace{UDP}, exits: true},
}

// joinByMemory makes this process have both ends of a link: ntb0, which is
// 10.99.0.1, and ntb1, which is 10.99.0.2.
func joinByMemory(t *testing.T) {
	at := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
	joinLinks(t, at+","+at)
}

func joinLinks(t *testing.T, links string) {
	t.Helper()
	check(t, verbs.UseLinks(links))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
}

// ofKinds runs a test for every kind.
func ofKinds(t *testing.T, test func(t *testing.T, k kindUnderTest)) {
	for _, k := range kinds {
		t.Run(string(k.Kind), func(t *testing.T) {
			if k.join != nil {
				k.join(t)
			}
			test(t, k)
		})
	}
}

// at is the address of the listener in tests that need one only.
func (k *kindUnderTest) at() netip.Addr { return netip.MustParseAddr(k.addrs[0]) }

// idOf makes an identifier for devices of a kind.
func (p *process) idOf(k Kind) *testID {
	p.f.t.Helper()
	id := p.newID(TCP)
	check(p.f.t, id.SetKind(k))
	return id
}

// listeningOf returns a listener on a port of the system's choice.
func (p *process) listeningOf(k Kind, addr netip.Addr, backlog int) *testID {
	p.f.t.Helper()
	id := p.idOf(k)
	check(p.f.t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
	check(p.f.t, id.Listen(backlog))
	return id
}

// resolvedOf returns an identifier with a queue pair that may connect to dst.
func (p *process) resolvedOf(k Kind, dst netip.AddrPort) *equipped {
	p.f.t.Helper()
	id := p.idOf(k)
	id.resolve(dst)
	return id.equip(ib.QPTypeRC)
}

func (id *testID) resolve(dst netip.AddrPort) {
	id.t.Helper()
	check(id.t, id.ResolveAddr(context.Background(), netip.AddrPort{}, dst))
	id.want(AddrResolved)
	check(id.t, id.ResolveRoute())
	id.want(RouteResolved)
	check(id.t, id.SetACKTimeout(14)) // short time-waits
}

// said takes the zeros off that some protocols pad private data with.
func said(private []byte) string { return strings.TrimRight(string(private), "\x00") }

func TestConnectionOfEveryKind(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		for _, addr := range k.addrs {
			t.Run(addr, func(t *testing.T) { testConnection(t, k, addr) })
		}
	})
}

func testConnection(t *testing.T, k kindUnderTest, addr string) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(k.Kind, netip.MustParseAddr(addr), 0)
	client := a.resolvedOf(k.Kind, l.LocalAddr())
	p := someParam
	p.PrivateData = []byte("hello")
	check(t, client.Connect(&p))
	server, ev := f.requested(l)
	if said(ev.PrivateData) != "hello" || ev.ListenID != l.ID || ev.ID.LocalAddr() != l.LocalAddr() || ev.ID.Kind() != k.Kind {
		t.Errorf("request with %q at %v", ev.PrivateData, ev.ID.LocalAddr())
	}
	if c := ev.Conn; c.ResponderResources != 2 || c.InitiatorDepth != 3 {
		t.Errorf("request with %+v", c)
	}
	check(t, server.Accept(&ConnParam{ResponderResources: MaxRdAtomic, InitiatorDepth: MaxRdAtomic, PrivateData: []byte("welcome")}))
	up := client.want(Established)
	server.want(Established)
	if said(up.PrivateData) != "welcome" || up.Conn.InitiatorDepth != 2 || up.Conn.ResponderResources != 3 {
		t.Errorf("reply with %q, %+v", up.PrivateData, up.Conn)
	}
	if ev.ID.PeerAddr() != client.LocalAddr() || client.LocalAddr().Port() == 0 {
		t.Errorf("from %v, the client is at %v", ev.ID.PeerAddr(), client.LocalAddr())
	}
	exchange(server, client) // the passive side may be first
	exchange(client, server)
	x, _ := client.QP().Query()
	y, _ := server.QP().Query()
	if x.State != ib.QPRTS || y.State != ib.QPRTS || x.MaxRdAtomic != 2 || x.MaxDestRdAtomic != 3 || y.MaxRdAtomic != 3 || y.MaxDestRdAtomic != 2 {
		t.Errorf("the ends are\n%+v\n%+v", x, y)
	}
	check(t, client.Disconnect())
	if got := server.want(Disconnected); got.Err != nil {
		t.Error(got.Err)
	}
	check(t, server.Disconnect())
	if got := client.want(Disconnected); got.Err != nil {
		t.Error(got.Err)
	}
	check(t, client.Disconnect())
	if client.QP().State() != ib.QPErr || server.QP().State() != ib.QPErr {
		t.Errorf("queue pairs in %v and %v", client.QP().State(), server.QP().State())
	}
	if k.exits {
		client.want(TimewaitExit)
		server.want(TimewaitExit)
	}
	if ev := client.ch.TryGet(); ev != nil {
		t.Errorf("%v", ev.Type)
	}
}

func TestRejectOfEveryKindBringsPrivateData(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listeningOf(k.Kind, k.at(), 0)
		client := a.resolvedOf(k.Kind, l.LocalAddr())
		check(t, client.Connect(&someParam))
		ev := l.want(ConnectRequest)
		check(t, ev.ID.Reject([]byte("no thanks")))
		check(t, ev.ID.Destroy())
		got := client.want(Rejected)
		var re *RejectedError
		if !errors.As(got.Err, &re) || re.Reason != RejectConsumer || said(got.PrivateData) != "no thanks" {
			t.Errorf("rejected with %v, %q", got.Err, got.PrivateData)
		}
		if client.QP().State() != ib.QPErr {
			t.Errorf("queue pair in %v", client.QP().State())
		}
	})
}

func TestPrivateDataOfEveryKindIsLimited(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listeningOf(k.Kind, k.at(), 0)
		client := a.resolvedOf(k.Kind, l.LocalAddr())
		p := someParam
		p.PrivateData = bytes.Repeat([]byte{7}, k.connectBytes+1)
		if err := client.Connect(&p); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("connected with %d bytes: %v", len(p.PrivateData), err)
		}
		p.PrivateData = p.PrivateData[1:]
		check(t, client.Connect(&p))
		server, ev := f.requested(l)
		if !bytes.Equal(ev.PrivateData, p.PrivateData) {
			t.Errorf("%d bytes arrived", len(ev.PrivateData))
		}
		if err := server.Reject(make([]byte, k.rejectBytes+1)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("refused with %d bytes: %v", k.rejectBytes+1, err)
		}
		if err := server.Accept(&ConnParam{PrivateData: make([]byte, k.acceptBytes+1)}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("accepted with %d bytes: %v", k.acceptBytes+1, err)
		}
		p.PrivateData = bytes.Repeat([]byte{8}, k.acceptBytes)
		check(t, server.Accept(&p))
		if up := client.want(Established); !bytes.Equal(up.PrivateData, p.PrivateData) {
			t.Errorf("%d bytes came back", len(up.PrivateData))
		}
	})
}

// An identifier of a request that is destroyed refuses it.
func TestUnansweredRequestOfEveryKindIsRefused(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.listeningOf(k.Kind, k.at(), 0)
		client := a.resolvedOf(k.Kind, l.LocalAddr())
		check(t, client.Connect(&someParam))
		check(t, l.want(ConnectRequest).ID.Destroy())
		client.want(Rejected)
	})
}

func TestListenerOfEveryKindOnAllAddresses(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.idOf(k.Kind)
		check(t, l.Listen(4)) // not bound: a port of the system's choice on all addresses
		for _, ip := range k.addrs {
			dst := netip.AddrPortFrom(netip.MustParseAddr(ip), l.LocalAddr().Port())
			client := a.resolvedOf(k.Kind, dst)
			check(t, client.Connect(&someParam))
			ev := l.want(ConnectRequest)
			if ev.ID.LocalAddr() != dst || ev.ID.Verbs() == nil || ev.ID.PeerAddr() != client.LocalAddr() {
				t.Errorf("request at %v from %v", ev.ID.LocalAddr(), ev.ID.PeerAddr())
			}
			check(t, ev.ID.Destroy())
			client.want(Rejected)
		}
	})
}

// A port that is only bound takes nobody, after a while.
func TestBoundPortOfEveryKind(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		if k.silent {
			t.Skip("a port of this kind refuses in silence: there is no answer to test")
		}
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		bound := b.idOf(k.Kind)
		check(t, bound.BindAddr(netip.AddrPortFrom(k.at(), 0)))
		early := a.resolvedOf(k.Kind, bound.LocalAddr())
		check(t, early.Connect(&someParam))
		early.want(Rejected)
	})
}

// A port that the client is bound to, at a wildcard even, is the one dialled from.
func TestClientOfEveryKindHasThePortItIsBoundTo(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		own := loopback4
		if k.Kind == NTB {
			own = netip.MustParseAddr("10.99.0.1")
		}
		for _, at := range []netip.Addr{own, netip.IPv4Unspecified()} {
			t.Run(at.String(), func(t *testing.T) {
				f := newFabric(t)
				a, b := f.process(1), f.process(2)
				id := a.idOf(k.Kind)
				check(t, id.BindAddr(netip.AddrPortFrom(at, 0)))
				port := id.LocalAddr().Port()
				if port == 0 {
					t.Fatal("no port")
				}
				// Behind the wildcard, which takes requests over all links of this process.
				l := b.listeningOf(k.Kind, k.at(), 0)
				id.resolve(l.LocalAddr())
				client := id.equip(ib.QPTypeRC)
				check(t, client.Connect(&someParam))
				server, ev := f.requested(l)
				if ev.ID.PeerAddr() != client.LocalAddr() || client.LocalAddr().Port() != port {
					t.Errorf("bound to port %d, the peer saw %v", port, ev.ID.PeerAddr())
				}
				check(t, server.Accept(&someParam))
				client.want(Established)
				server.want(Established)
				check(t, server.Disconnect())
				client.want(Disconnected)
			})
		}
	})
}

// An ID is bound to its source address also where the peer's cannot be resolved,
// and may listen then.
func TestListenerOfEveryKindAfterAFailedResolve(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.idOf(k.Kind)
		otherFamily := netip.MustParseAddrPort("[::1]:7")
		check(t, l.ResolveAddr(context.Background(), netip.AddrPortFrom(k.at(), 0), otherFamily))
		l.want(AddrError)
		check(t, l.Listen(0))
		client := a.resolvedOf(k.Kind, l.LocalAddr())
		check(t, client.Connect(&someParam))
		ev := l.want(ConnectRequest)
		if ev.ID.LocalAddr() != l.LocalAddr() || l.LocalAddr().Port() == 0 {
			t.Errorf("request at %v, listening at %v", ev.ID.LocalAddr(), l.LocalAddr())
		}
		check(t, ev.ID.Destroy())
		client.want(Rejected)
	})
}

func TestWhatCannotBeOfEveryKind(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		p, q := f.process(1), f.process(2)
		id := p.newID(TCP)
		if err := id.SetKind("token_ring"); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("a kind that there is not: %v", err)
		}
		for _, ps := range k.wrongSpaces {
			if err := p.newID(ps).SetKind(k.Kind); !errors.Is(err, syscall.EOPNOTSUPP) {
				t.Errorf("%v: %v", ps, err)
			}
		}
		check(t, id.BindAddr(anyPort))
		if err := id.SetKind(k.Kind); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("bound already: %v", err)
		}
		l := q.listeningOf(k.Kind, k.at(), 0)
		id = p.idOf(k.Kind)
		id.resolve(l.LocalAddr())
		if err := id.Connect(&someParam); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("without a queue pair: %v", err)
		}
		if err := id.ResolveAddr(context.Background(), netip.AddrPort{}, l.LocalAddr()); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("resolved twice: %v", err)
		}
		if _, mask, err := id.QPAttr(ib.QPRTS, ib.QPTypeRC); k.Kind.IsIWARP() && (err != nil || mask != 0) || !k.Kind.IsIWARP() && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("attributes for RTS, not connected: %v, %v", mask, err)
		}
	})
}

func TestDialAndListenOfEveryKind(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		newFabric(t).alone()
		ctx := within(t)
		l, err := ListenAddr(netip.AddrPortFrom(k.at(), 0).String(), &Options{Kind: k.Kind})
		check(t, err)
		accepted := make(chan *Conn, 1)
		go func() {
			c, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		client, err := Dial(ctx, l.Addr().String(), &Options{Kind: k.Kind})
		check(t, err)
		server := <-accepted
		if server == nil || !strings.HasPrefix(client.ID.Verbs().Info().Name, k.device) {
			t.Fatalf("%v, on %s", server, client.ID.Verbs().Info().Name)
		}
		check(t, client.Close())
		check(t, server.Wait(ctx))
		check(t, server.Close())
		check(t, l.Close())
		if !k.silent {
			if _, err := Dial(ctx, l.Addr().String(), &Options{Kind: k.Kind}); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("nobody listens: %v", err)
			}
		}
		if _, err := Dial(ctx, l.Addr().String(), &Options{Kind: "avian"}); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("a kind that there is not: %v", err)
		}
	})
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestRequestOfEveryKindWaitsForListen has a client ask at a port that a server has bound, to
// all addresses, and not listened to yet: qperf tells its peer the port between the two.
func TestRequestOfEveryKindWaitsForListen(t *testing.T) {
	ofKinds(t, func(t *testing.T, k kindUnderTest) {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.idOf(k.Kind)
		check(t, l.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
		early := a.resolvedOf(k.Kind, netip.AddrPortFrom(k.at(), l.LocalAddr().Port()))
		check(t, early.Connect(&someParam))

		other := b.listeningOf(k.Kind, k.at(), 0) // when its client is there the request has been looked at
		late := a.resolvedOf(k.Kind, other.LocalAddr())
		check(t, late.Connect(&someParam))
		request := other.want(ConnectRequest).ID
		check(t, request.Reject(nil))
		check(t, request.Destroy())
		late.want(Rejected)
		if ev := early.ch.TryGet(); ev != nil {
			t.Fatalf("%v (%v) before the server listens", ev.Type, ev.Err)
		}

		check(t, l.Listen(0))
		server, _ := f.requested(l)
		check(t, server.Accept(&someParam))
		early.want(Established)
		server.want(Established)
	})
}
