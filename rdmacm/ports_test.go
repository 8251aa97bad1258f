// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

func TestPortInUseIsAnError(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	first := a.newID(TCP)
	check(t, first.BindAddr(anyPort))
	at := first.LocalAddr()
	if at.Port() == 0 {
		t.Fatal("port 0 was not replaced")
	}
	for name, c := range map[string]struct {
		p    *process
		ps   PortSpace
		addr netip.AddrPort
		want error
	}{
		"same process":     {a, TCP, at, syscall.EADDRINUSE},
		"another process":  {b, TCP, at, syscall.EADDRINUSE},
		"wildcard":         {a, TCP, netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port()), syscall.EADDRINUSE},
		"IPv4 wildcard":    {a, TCP, netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), syscall.EADDRINUSE},
		"other port space": {a, UDP, at, nil},
		"other family":     {a, TCP, netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()), nil},
		"no such address":  {a, TCP, netip.MustParseAddrPort("192.0.2.1:0"), syscall.ENODEV},
		"no address":       {a, TCP, netip.AddrPort{}, syscall.EINVAL},
	} {
		id := c.p.newID(c.ps)
		if err := id.BindAddr(c.addr); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	check(t, first.Destroy())
	again := b.newID(TCP)
	other := a.newID(TCP)
	_ = other
	if err := again.BindAddr(netip.AddrPortFrom(loopback4, 0)); err != nil {
		t.Error(err)
	}
}

// A port that was given back can be bound again, also by another process.
func TestPortIsGivenBack(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	first := a.listening(TCP, loopback4)
	at := first.LocalAddr()
	check(t, first.Destroy())
	second := b.newID(TCP)
	check(t, second.BindAddr(at))
	check(t, second.Listen(1))
}

// CVE-2023-2176 and CVE-2021-4028: binding an identifier twice, or one that is
// resolved, changed an address that lists in Linux relied on.
func TestCVE_2023_2176_AnIDIsBoundOnce(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	id := p.listening(TCP, loopback4)
	was := id.LocalAddr()
	ctx := context.Background()
	for name, err := range map[string]error{
		"BindAddr":    id.BindAddr(netip.MustParseAddrPort("[::1]:0")),
		"ResolveAddr": id.ResolveAddr(ctx, netip.AddrPort{}, was),
		"Listen":      id.Listen(1),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s on a listener: %v", name, err)
		}
	}
	resolved := p.resolved(TCP, netip.AddrPortFrom(loopback4, 9))
	if err := resolved.BindAddr(anyPort); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("BindAddr after ResolveRoute: %v", err)
	}
	if id.LocalAddr() != was {
		t.Errorf("the address became %v", id.LocalAddr())
	}
}

// CVE-2022-48925: rdma_resolve_addr wrote a source address into an identifier before it looked at
// its state. A listener no longer looked like one of all addresses, and was freed while lists held
// it. Here the address stays the same, in every state.
func TestCVE_2022_48925_AnAddressKeepsItsFamily(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	ctx := context.Background()
	six := netip.MustParseAddrPort("[::1]:0")
	dst6 := netip.MustParseAddrPort("[::1]:9")
	for name, id := range map[string]*testID{
		"listener": p.listening(TCP, loopback4), "resolved": p.resolved(TCP, netip.AddrPortFrom(loopback4, 9)),
	} {
		was := id.LocalAddr()
		if err := id.ResolveAddr(ctx, six, dst6); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
		if id.LocalAddr() != was {
			t.Errorf("%s: the address became %v", name, id.LocalAddr())
		}
	}
	for name, addr := range map[string]netip.Addr{"bound": loopback4, "bound to all": netip.IPv4Unspecified()} {
		id := p.newID(TCP)
		check(t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
		was := id.LocalAddr()
		check(t, id.ResolveAddr(ctx, six, dst6))
		if ev := id.want(AddrError); !errors.Is(ev.Err, syscall.EINVAL) || id.LocalAddr() != was {
			t.Errorf("%s: %v, the address became %v", name, ev.Err, id.LocalAddr())
		}
		check(t, id.ResolveAddr(ctx, netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9))) // as before
		id.want(AddrResolved)
	}
}

// CVE-2021-47391: an identifier whose resolution failed could begin another
// while the first was still queued; destroying it cancelled one of the two, and
// the other used freed memory. Here calls race for an identifier that goes away
// under them, and nothing comes after Destroy. Run with -race.
func TestCVE_2021_47391_DestroyWhileResolving(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		id := p.newID(TCP)
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{gone, context.Background(), gone} {
			wg.Go(func() {
				err := id.ResolveAddr(ctx, netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9))
				if err != nil && !errors.Is(err, syscall.EINVAL) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { check(t, id.Destroy()) })
		wg.Wait()
		if ev, err := id.ch.Get(gone); err == nil {
			t.Fatalf("%v after Destroy", ev.Type)
		}
	}
}

func TestResolveAddrFails(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	ctx := context.Background()
	for _, dst := range []string{"224.0.0.1:1", "[ff02::1]:1"} {
		if err := p.newID(TCP).ResolveAddr(ctx, netip.AddrPort{}, netip.MustParseAddrPort(dst)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", dst, err)
		}
	}
	if self := p.resolved(TCP, netip.MustParseAddrPort("0.0.0.0:9")); self.PeerAddr() != netip.AddrPortFrom(loopback4, 9) {
		t.Errorf("no host is %v, want this one", self.PeerAddr())
	}
	id := p.newID(TCP)
	check(t, id.ResolveAddr(ctx, anyPort, netip.MustParseAddrPort("[::1]:1")))
	if ev := id.want(AddrError); !errors.Is(ev.Err, syscall.EINVAL) {
		t.Errorf("two families: %v", ev.Err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	id = p.newID(TCP)
	check(t, id.ResolveAddr(gone, netip.AddrPort{}, netip.MustParseAddrPort("127.0.0.1:1")))
	id.want(AddrError)
}

func TestWrongCallsNameTheArgument(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	id := p.newID(TCP)
	long := make([]byte, 200)
	pd, err := p.devicePD()
	check(t, err)
	defer pd.Dealloc()
	for name, err := range map[string]error{
		"ResolveRoute": id.ResolveRoute(), "Connect": id.Connect(&someParam), "Accept": id.Accept(nil), "Reject": id.Reject(nil),
		"Establish": id.Establish(), "Disconnect": id.Disconnect(), "DestroyQP": id.DestroyQP(), "Migrate": id.Migrate(nil),
		"CreateQP": id.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeRC}), "SetACKTimeout": id.SetACKTimeout(32),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s of a new ID: %v", name, err)
		}
	}
	if _, err := NewID(nil, TCP); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no channel: %v", err)
	}
	if _, err := NewID(NewEventChannel(), PortSpace(3)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("port space 3: %v", err)
	}
	for ps, most := range map[PortSpace]int{TCP: 56, IB: 56, UDP: 180} {
		r := p.resolved(ps, netip.AddrPortFrom(loopback4, 9))
		prm := someParam
		prm.QPN, prm.PrivateData = 0x77, long[:most+1]
		if err := r.Connect(&prm); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v with %d bytes: %v", ps, most+1, err)
		}
		prm.RetryCount, prm.PrivateData = 8, long[:most]
		if err := r.Connect(&prm); (err != nil) != (ps != UDP) {
			t.Errorf("%v with retry count 8: %v", ps, err)
		}
		if err := r.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeUC}); (ps == IB) == errors.Is(err, syscall.EINVAL) && ps != IB {
			t.Errorf("%v with a UC queue pair: %v", ps, err)
		}
	}
}

// devicePD is a protection domain of the loopback device.
func (p *process) devicePD() (*verbs.PD, error) {
	at, err := p.locate(RoCE, loopback4)
	if err != nil {
		return nil, err
	}
	return at.verbs.AllocPD()
}

func TestEventNames(t *testing.T) {
	if AddrResolved.String() != "RDMA_CM_EVENT_ADDR_RESOLVED" || TimewaitExit.String() != "RDMA_CM_EVENT_TIMEWAIT_EXIT" || EventType(99).String() != "UNKNOWN EVENT" {
		t.Error("names are not those of rdma_event_str")
	}
}

func TestChannel(t *testing.T) {
	ch := NewEventChannel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ch.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ch.put(&Event{Type: Established}, &Event{Type: Disconnected})
	if ev := ch.TryGet(); ev.Type != Established {
		t.Errorf("first %v", ev.Type)
	}
	if ev, err := ch.Get(context.Background()); err != nil || ev.Type != Disconnected {
		t.Errorf("second %v, %v", ev, err)
	}
	ch.Close()
	for range 2 {
		if _, err := ch.Get(context.Background()); !errors.Is(err, syscall.EBADF) {
			t.Errorf("closed: %v", err)
		}
	}
}

// A channel that gives its events away does so in order, and after Destroy of
// an ID or Close no more.
func TestChannelToAFunction(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	type seen struct {
		typ EventType
		id  *ID
	}
	events := make(chan seen, 16)
	ch := NewEventChannelTo(func(ev *Event) { events <- seen{ev.Type, ev.ID} })
	b.join()
	l := newID(b.manager, TCP, ch)
	check(t, l.BindAddr(anyPort))
	check(t, l.Listen(1))
	client := a.resolved(TCP, l.LocalAddr()).equip(ib.QPTypeRC)
	check(t, client.Connect(&someParam))
	ev := <-events
	if ev.typ != ConnectRequest {
		t.Fatalf("%v", ev.typ)
	}
	check(t, l.Destroy())
	check(t, ev.id.Destroy()) // it belongs to the thread that has seen it
	client.want(Rejected)

	b.join()
	id := newID(b.manager, TCP, ch)
	dst := netip.AddrPortFrom(loopback4, 9)
	check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, dst))
	check(t, id.ResolveRoute())
	if first, second := <-events, <-events; first.typ != AddrResolved || second.typ != RouteResolved || first.id != id {
		t.Errorf("%v, %v", first.typ, second.typ)
	}
	if ch.TryGet() != nil {
		t.Error("the event is there a second time")
	}
	// Moved to a channel that keeps events, the ID raises them there.
	kept := NewEventChannel()
	check(t, id.Migrate(kept))
	id.raise(Event{Type: DeviceRemoval})
	check(t, id.Migrate(ch))
	if ev := <-events; ev.typ != DeviceRemoval || kept.TryGet() != nil {
		t.Errorf("%v", ev.typ)
	}
	ch.Close()
	id.raise(Event{Type: DeviceRemoval})
	check(t, id.Destroy())
	if len(events) > 0 {
		t.Errorf("%v after Close", (<-events).typ)
	}
}

// A listener whose peers would wait in vain, because somebody else has the UDP
// port of every address, is refused.
func TestListenerWithoutAnAddressIsRefused(t *testing.T) {
	p := newFabric(t).process(1)
	all, any4, any6 := "::", netip.IPv4Unspecified(), netip.IPv6Unspecified()
	for name, c := range map[string]struct {
		taken func(netip.Addr) bool
		want  map[string]error // by the address of the listener
	}{
		"all":         {func(netip.Addr) bool { return true }, map[string]error{all: syscall.EADDRINUSE, "IPv4": syscall.EADDRINUSE, "IPv6": syscall.EADDRINUSE}},
		"all of IPv4": {netip.Addr.Is4, map[string]error{all: syscall.EADDRINUSE, "IPv4": syscall.EADDRINUSE, "IPv6": nil}},
		"all of IPv6": {netip.Addr.Is6, map[string]error{all: syscall.EADDRINUSE, "IPv4": nil, "IPv6": syscall.EADDRINUSE}},
		"none":        {nil, map[string]error{all: nil, "IPv4": nil, "IPv6": nil}},
	} {
		p.taken = c.taken
		for what, want := range c.want {
			id := p.newID(TCP)
			addr := any6
			if what == "IPv4" {
				addr = any4
			}
			check(t, id.SetAFOnly(what == "IPv6"))
			check(t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
			if err := id.Listen(1); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s taken, listening to %s: %v, want %v", name, what, err, want)
			}
		}
	}
}

// The port space of interfaces over InfiniBand fails where Linux has it fail over
// Ethernet.
func TestIPoIB(t *testing.T) {
	p := newFabric(t).process(1)
	id := p.newID(IPoIB)
	if err := id.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
		t.Fatal(err)
	}
	r := p.resolved(IPoIB, netip.AddrPortFrom(loopback4, 9))
	pd, err := p.devicePD()
	check(t, err)
	defer pd.Dealloc()
	if err := r.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeRC}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("connected: %v", err)
	}
	if err := r.CreateQP(pd, &verbs.QPInitAttr{Type: ib.QPTypeUD}); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("datagrams: %v", err)
	}
	if _, _, err := r.QPAttr(ib.QPInit, ib.QPTypeUD); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("attributes: %v", err)
	}
}
