package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// trp makes an identifier for TRP devices.
func (p *process) trpID() *testID {
	p.f.t.Helper()
	id := p.newID(TCP)
	check(p.f.t, id.SetKind(TRP))
	return id
}

// trpListening returns a listener on a port of the system's choice.
func (p *process) trpListening(addr netip.Addr, backlog int) *testID {
	p.f.t.Helper()
	id := p.trpID()
	check(p.f.t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
	check(p.f.t, id.Listen(backlog))
	return id
}

// trpResolved returns an identifier with a queue pair that may connect to dst.
func (p *process) trpResolved(dst netip.AddrPort) *equipped {
	p.f.t.Helper()
	id := p.trpID()
	check(p.f.t, id.ResolveAddr(context.Background(), netip.AddrPort{}, dst))
	id.want(AddrResolved)
	check(p.f.t, id.ResolveRoute())
	id.want(RouteResolved)
	return id.equip(ib.QPTypeRC)
}

func testTRPConnection(t *testing.T, addr string) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.trpListening(netip.MustParseAddr(addr), 0)
	client := a.trpResolved(l.LocalAddr())
	p := someParam
	p.PrivateData = []byte("hello")
	check(t, client.Connect(&p))
	server, ev := f.requested(l)
	if string(ev.PrivateData) != "hello" || ev.ListenID != l.ID || ev.ID.LocalAddr() != l.LocalAddr() || ev.ID.Kind() != TRP {
		t.Errorf("request with %q at %v", ev.PrivateData, ev.ID.LocalAddr())
	}
	if c := ev.Conn; c.ResponderResources != 2 || c.InitiatorDepth != 3 {
		t.Errorf("request with %+v", c)
	}
	check(t, server.Accept(&ConnParam{ResponderResources: MaxRdAtomic, InitiatorDepth: MaxRdAtomic, PrivateData: []byte("welcome")}))
	up := client.want(Established)
	server.want(Established)
	if string(up.PrivateData) != "welcome" || up.Conn.InitiatorDepth != 2 || up.Conn.ResponderResources != 3 {
		t.Errorf("reply with %q, %+v", up.PrivateData, up.Conn)
	}
	if ev.ID.PeerAddr() != client.LocalAddr() || client.LocalAddr().Port() == 0 {
		t.Errorf("from %v, the client is at %v", ev.ID.PeerAddr(), client.LocalAddr())
	}
	exchange(server, client)
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
	if got := client.want(Disconnected); got.Err != nil {
		t.Error(got.Err)
	}
	check(t, server.Disconnect())
	check(t, client.Disconnect())
	if client.QP().State() != ib.QPErr || server.QP().State() != ib.QPErr {
		t.Errorf("queue pairs in %v and %v", client.QP().State(), server.QP().State())
	}
}

func TestTRPConnectionCarriesDataAndEnds(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) { testTRPConnection(t, addr) })
	}
}

// The same where one datagram in a hundred is lost, again and again.
func TestTRPConnectionOnALossyNetwork(t *testing.T) {
	var first *verbs.Context
	until(t, "the managers of the tests before have ended", func() (ok bool) {
		var err error
		first, err = verbs.Open("", verbs.WithFaults("loss=1%,dup=1%,seed=5"))
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer first.Close()
	for range 10 {
		testTRPConnection(t, "127.0.0.1")
	}
}

func TestTRPRejectBringsPrivateData(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.trpListening(loopback4, 0)
	client := a.trpResolved(l.LocalAddr())
	p := someParam
	p.PrivateData = bytes.Repeat([]byte{7}, 513)
	if err := client.Connect(&p); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("connected with 513 bytes: %v", err)
	}
	p.PrivateData = p.PrivateData[:512]
	check(t, client.Connect(&p))
	ev := l.want(ConnectRequest)
	if !bytes.Equal(ev.PrivateData, p.PrivateData) {
		t.Errorf("%d bytes arrived", len(ev.PrivateData))
	}
	if err := ev.ID.Reject(make([]byte, 513)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("refused with 513 bytes: %v", err)
	}
	check(t, ev.ID.Reject([]byte("no thanks")))
	check(t, ev.ID.Destroy())
	got := client.want(Rejected)
	var re *RejectedError
	if !errors.As(got.Err, &re) || re.Reason != RejectConsumer || string(got.PrivateData) != "no thanks" {
		t.Errorf("rejected with %v, %q", got.Err, got.PrivateData)
	}
	if client.QP().State() != ib.QPErr {
		t.Errorf("queue pair in %v", client.QP().State())
	}
}

// An identifier of a request that is destroyed refuses it; so does the end of
// its listener.
func TestTRPUnansweredRequestIsRefused(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.trpListening(loopback4, 0)
	client := a.trpResolved(l.LocalAddr())
	check(t, client.Connect(&someParam))
	check(t, l.want(ConnectRequest).ID.Destroy())
	client.want(Rejected)
}

// The UDP port is the kernel's: no other program has it, and who has it is not
// disturbed.
func TestTRPListenerHasTheUDPPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := a.trpID().BindAddr(netip.MustParseAddrPort(taken.LocalAddr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound to a port that a program has: %v", err)
	}
	var l *testID
	var at netip.AddrPort
	for range 10 {
		l = a.trpListening(loopback4, 0)
		at = l.LocalAddr()
		// A TCP port is another: both may have one number, unless a stranger has it.
		if err = b.iwarp().BindAddr(at); err == nil {
			break
		}
		check(t, l.Destroy())
	}
	check(t, err)
	if err := b.trpID().BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process bound to the port: %v", err)
	}
	check(t, l.Destroy())
	c, err := net.ListenPacket("udp", at.String())
	check(t, err)
	check(t, c.Close())
}

func TestTRPListenerOnAllAddresses(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.trpID()
	check(t, l.Listen(4)) // not bound: a port of the system's choice on all addresses
	for _, ip := range []string{"127.0.0.1", "::1"} {
		dst := netip.AddrPortFrom(netip.MustParseAddr(ip), l.LocalAddr().Port())
		client := a.trpResolved(dst)
		check(t, client.Connect(&someParam))
		ev := l.want(ConnectRequest)
		if ev.ID.LocalAddr() != dst || ev.ID.Verbs() == nil || ev.ID.PeerAddr() != client.LocalAddr() {
			t.Errorf("request at %v from %v", ev.ID.LocalAddr(), ev.ID.PeerAddr())
		}
		check(t, ev.ID.Destroy())
		client.want(Rejected)
	}
}

// A port that the client is bound to, at a wildcard even, is the one dialled
// from.
func TestTRPBoundPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.trpListening(loopback4, 0)
	for _, at := range []netip.Addr{loopback4, netip.IPv4Unspecified()} {
		id := a.trpID()
		check(t, id.BindAddr(netip.AddrPortFrom(at, 0)))
		port := id.LocalAddr().Port()
		if port == 0 {
			t.Fatal("no port")
		}
		check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, l.LocalAddr()))
		id.want(AddrResolved)
		check(t, id.ResolveRoute())
		id.want(RouteResolved)
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
	}
}

func TestTRPWhatCannotBe(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	for _, ps := range []PortSpace{UDP, IB} {
		if err := p.newID(ps).SetKind(TRP); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%v: %v", ps, err)
		}
	}
	id := p.trpID()
	check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)))
	id.want(AddrResolved)
	check(t, id.ResolveRoute())
	id.want(RouteResolved)
	if err := id.Connect(&someParam); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("connected without a queue pair: %v", err)
	}
	if _, _, err := id.QPAttr(ib.QPRTS, ib.QPTypeRC); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("attributes for RTS: %v", err)
	}
}
