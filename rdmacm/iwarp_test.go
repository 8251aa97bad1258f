package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/cm/iwcm"
	wire "verbena/internal/wire/iwarp"
	"verbena/verbs"
)

// iwarp makes an identifier for iWARP devices.
func (p *process) iwarp() *testID {
	p.f.t.Helper()
	id := p.newID(TCP)
	check(p.f.t, id.SetKind(IWARP))
	return id
}

// iwarpListening returns a listener on a port of the system's choice.
func (p *process) iwarpListening(addr netip.Addr, backlog int) *testID {
	p.f.t.Helper()
	id := p.iwarp()
	check(p.f.t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
	check(p.f.t, id.Listen(backlog))
	return id
}

// iwarpResolved returns an identifier with a queue pair that may connect to dst.
func (p *process) iwarpResolved(dst netip.AddrPort) *equipped {
	p.f.t.Helper()
	id := p.iwarp()
	check(p.f.t, id.ResolveAddr(context.Background(), netip.AddrPort{}, dst))
	id.want(AddrResolved)
	check(p.f.t, id.ResolveRoute())
	id.want(RouteResolved)
	return id.equip(ib.QPTypeRC)
}

// requested waits for a request and gives it a queue pair.
func (f *fabric) requested(l *testID) (*equipped, *Event) {
	f.t.Helper()
	ev := l.want(ConnectRequest)
	ch := NewEventChannel()
	check(f.t, ev.ID.Migrate(ch))
	return f.own(ev.ID, ch).equip(ib.QPTypeRC), ev
}

// count returns one of the counters of a process's iWARP connections.
func (m *manager) counted(n iwcm.Counter) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.iw.count[n]
}

func (m *manager) faults(f iwcm.Fault) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.iw.count.Fault(f)
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

func TestIWARPConnectionCarriesDataAndEnds(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			l := b.iwarpListening(netip.MustParseAddr(addr), 0)
			client := a.iwarpResolved(l.LocalAddr())
			p := someParam
			p.PrivateData = []byte("hello")
			check(t, client.Connect(&p))
			server, ev := f.requested(l)
			if string(ev.PrivateData) != "hello" || ev.ListenID != l.ID || ev.ID.LocalAddr() != l.LocalAddr() || ev.ID.Kind() != IWARP {
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
			exchange(server, client) // the passive side may be first
			exchange(client, server)
			x, _ := client.QP().Query()
			y, _ := server.QP().Query()
			if x.State != ib.QPRTS || y.State != ib.QPRTS || x.MaxRdAtomic != 2 || x.MaxDestRdAtomic != 3 || y.MaxRdAtomic != 3 || y.MaxDestRdAtomic != 2 {
				t.Errorf("the ends are\n%+v\n%+v", x, y)
			}
			check(t, client.Disconnect())
			server.want(Disconnected)
			client.want(Disconnected)
			check(t, server.Disconnect())
			check(t, client.Disconnect())
			if client.QP().State() != ib.QPErr || server.QP().State() != ib.QPErr {
				t.Errorf("queue pairs in %v and %v", client.QP().State(), server.QP().State())
			}
			if ev := client.ch.TryGet(); ev != nil {
				t.Errorf("%v", ev.Type) // TCP has its own time-wait
			}
		})
	}
}

func TestIWARPRejectBringsPrivateData(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.iwarpListening(loopback4, 0)
	client := a.iwarpResolved(l.LocalAddr())
	check(t, client.Connect(&someParam))
	ev := l.want(ConnectRequest)
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

func TestIWARPPrivateDataLimit(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.iwarpListening(loopback4, 0)
	client := a.iwarpResolved(l.LocalAddr())
	p := someParam
	p.PrivateData = bytes.Repeat([]byte{7}, 509)
	if err := client.Connect(&p); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("connected with 509 bytes: %v", err)
	}
	p.PrivateData = p.PrivateData[1:]
	check(t, client.Connect(&p))
	server, ev := f.requested(l)
	if !bytes.Equal(ev.PrivateData, p.PrivateData) {
		t.Errorf("%d bytes arrived", len(ev.PrivateData))
	}
	for _, answer := range []func([]byte) error{server.Reject, func(b []byte) error { return server.Accept(&ConnParam{PrivateData: b}) }} {
		if err := answer(make([]byte, 509)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("answered with 509 bytes: %v", err)
		}
	}
	check(t, server.Accept(&p))
	if up := client.want(Established); !bytes.Equal(up.PrivateData, p.PrivateData) {
		t.Errorf("%d bytes came back", len(up.PrivateData))
	}
}

// The TCP port is the kernel's: nobody else's listener has it, RDMA or not.
func TestIWARPListenerHasTheTCPPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := a.iwarp().BindAddr(netip.MustParseAddrPort(taken.Addr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound to a port that a TCP listener has: %v", err)
	}
	l := a.iwarpListening(loopback4, 0)
	at := l.LocalAddr()
	if c, err := net.Listen("tcp", at.String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a TCP listener has the port as well: %v, %v", c, err)
	}
	if err := b.iwarp().BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process bound to the port: %v", err)
	}
	roce := b.newID(TCP) // it has a port space of its own
	check(t, roce.BindAddr(at))
	check(t, roce.Listen(0))
	check(t, l.Destroy())
	c, err := net.Listen("tcp", at.String())
	check(t, err)
	check(t, c.Close())
}

func TestIWARPListenerOnAllAddresses(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.iwarp()
	check(t, l.Listen(4)) // not bound: a port of the system's choice on all addresses
	for _, ip := range []string{"127.0.0.1", "::1"} {
		dst := netip.AddrPortFrom(netip.MustParseAddr(ip), l.LocalAddr().Port())
		client := a.iwarpResolved(dst)
		check(t, client.Connect(&someParam))
		ev := l.want(ConnectRequest)
		if ev.ID.LocalAddr() != dst || ev.ID.Verbs() == nil || ev.ID.PeerAddr() != client.LocalAddr() {
			t.Errorf("request at %v from %v", ev.ID.LocalAddr(), ev.ID.PeerAddr())
		}
		check(t, ev.ID.Destroy())
		client.want(Rejected)
	}
}

// A port that is only bound takes nobody; one to dial from is dialled from.
func TestIWARPBoundPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.iwarpListening(loopback4, 0)
	id := a.iwarp()
	check(t, id.BindAddr(anyPort))
	port := id.LocalAddr().Port()
	if port == 0 {
		t.Fatal("no port")
	}
	early := b.iwarpResolved(id.LocalAddr())
	check(t, early.Connect(&someParam))
	early.want(Rejected)

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
}

func TestIWARPWhatCannotBe(t *testing.T) {
	p := newFabric(t).process(1)
	id := p.newID(TCP)
	if err := id.SetKind("token_ring"); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("a kind that there is not: %v", err)
	}
	for _, ps := range []PortSpace{UDP, IB} {
		if err := p.newID(ps).SetKind(IWARP); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%v: %v", ps, err)
		}
	}
	check(t, id.BindAddr(anyPort))
	if err := id.SetKind(IWARP); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("bound already: %v", err)
	}
	id = p.iwarp()
	check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)))
	check(t, id.ResolveRoute())
	if err := id.Connect(&ConnParam{QPN: 5}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("without a queue pair: %v", err)
	}
	if err := id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("resolved twice: %v", err)
	}
}

func TestIWARPDialAndListen(t *testing.T) {
	newFabric(t).alone()
	ctx := within(t)
	l, err := ListenAddr("127.0.0.1:0", &Options{Kind: IWARP})
	check(t, err)
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := Dial(ctx, l.Addr().String(), &Options{Kind: IWARP})
	check(t, err)
	server := <-accepted
	if server == nil || !strings.HasPrefix(client.ID.Verbs().Info().Name, "iwarp_") {
		t.Fatalf("%v, on %s", server, client.ID.Verbs().Info().Name)
	}
	check(t, client.Close())
	check(t, server.Wait(ctx))
	check(t, server.Close())
	check(t, l.Close())
	if _, err := Dial(ctx, l.Addr().String(), &Options{Kind: IWARP}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := Dial(ctx, l.Addr().String(), &Options{Kind: "avian"}); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("a kind that there is not: %v", err)
	}
}

// CRCs are asked for unless the application says otherwise, and used if one of
// the two asks.
func TestIWARPCRCIsWhatEitherWants(t *testing.T) {
	for _, c := range []struct{ client, server bool }{{true, false}, {false, true}, {false, false}} {
		f := newFabric(t)
		a, b := f.process(1), f.process(2)
		l := b.iwarp()
		l.SetCRC(c.server)
		check(t, l.BindAddr(anyPort))
		check(t, l.Listen(1))
		client := a.iwarpResolved(l.LocalAddr())
		client.SetCRC(c.client)
		check(t, client.Connect(&someParam))
		server, _ := f.requested(l)
		check(t, server.Accept(&someParam))
		client.want(Established)
		server.want(Established)
		for _, end := range []*equipped{client, server} {
			end.mgr.mu.Lock()
			s, _ := end.via.(*iwConnector).stream.conn.HandOver()
			end.mgr.mu.Unlock()
			if s.CRC != (c.client || c.server) {
				t.Errorf("%+v: CRCs %v", c, s.CRC)
			}
		}
		exchange(client, server)
	}
}

// A peer that speaks the first RFC only, by hand.
func TestIWARPPeerOfRevision1(t *testing.T) {
	a := newFabric(t).process(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	client := a.iwarpResolved(netip.MustParseAddrPort(l.Addr().String()))
	check(t, client.Connect(&someParam))
	for _, want := range []uint8{2, 1} {
		c, err := l.Accept()
		check(t, err)
		defer c.Close()
		f := readFrame(t, c)
		if f.Reply || f.Revision != want || !f.CRC {
			t.Fatalf("asked with %+v", f)
		}
		_, err = c.Write(wire.MPAFrame{Reply: true, Revision: 1, CRC: true, Reject: want == 2, PrivateData: []byte("yes")}.Append(nil))
		check(t, err)
	}
	if ev := client.want(Established); string(ev.PrivateData) != "yes" {
		t.Errorf("established with %q", ev.PrivateData)
	}
}

func readFrame(t *testing.T, c net.Conn) wire.MPAFrame {
	t.Helper()
	check(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	var got []byte
	for {
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b...)
		if f, _, ok := wire.ParseMPAFrame(got); ok {
			return f
		}
	}
}

// Destroying a queue pair ends the connection.
func TestIWARPDestroyEndsAConnection(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.iwarpListening(loopback4, 0)
	client := a.iwarpResolved(l.LocalAddr())
	check(t, client.Connect(&someParam))
	server, _ := f.requested(l)
	check(t, server.Accept(&someParam))
	client.want(Established)
	server.want(Established)
	check(t, client.DestroyQP())
	server.want(Disconnected)
	_, err := server.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
	check(t, err)
	for wc := server.completion(); ; wc = server.completion() { // the receive first
		if wc.Status != ib.WCWRFlushErr {
			t.Errorf("completed with %v", wc.Status)
		}
		if wc.Opcode == ib.WCSend {
			break
		}
	}
	check(t, client.Destroy())
}
