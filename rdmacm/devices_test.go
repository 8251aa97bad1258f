// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
)

// The address settles which of the devices an identifier is on, and with it the
// protocol.
func TestDevicesAreChosenByAddress(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	for _, c := range []struct {
		among string
		ps    PortSpace
		want  Kind // "" where there is none
	}{
		{"", TCP, RoCE}, {"roce,iwarp", TCP, RoCE}, {"iwarp,roce", TCP, IWARP}, {"trp", TCP, TRP}, {"roce_nowhere,trp_lo,iwarp", TCP, TRP},
		{"iwarp,roce", UDP, RoCE}, {"iwarp", UDP, ""}, {"roce_nowhere", TCP, ""}, {"nonsense", TCP, ""},
	} {
		id := p.newID(c.ps)
		check(t, id.SetDevices(device.ParseSelection(c.among)))
		err := id.BindAddr(netip.AddrPortFrom(loopback4, 0))
		if c.want == "" {
			if !errors.Is(err, syscall.ENODEV) {
				t.Errorf("bound, among %q: %v", c.among, err)
			}
		} else if err != nil || id.Verbs().Info().Kind != c.want || id.Kind() != c.want {
			t.Errorf("bound, among %q: %v, %s", c.among, err, id.Kind())
		}
		id = p.newID(c.ps)
		check(t, id.SetDevices(device.ParseSelection(c.among)))
		check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)))
		if c.want == "" {
			if ev := id.want(AddrError); !errors.Is(ev.Err, syscall.ENODEV) {
				t.Errorf("resolved, among %q: %v", c.among, ev.Err)
			}
		} else if id.want(AddrResolved); id.Kind() != c.want {
			t.Errorf("resolved, among %q: %s", c.among, id.Kind())
		}
	}
	for _, c := range []struct {
		among string
		want  Kind
	}{{"trp,roce", TRP}, {"roce_nowhere", RoCE}} {
		id := p.newID(TCP)
		check(t, id.SetDevices(device.ParseSelection(c.among)))
		check(t, id.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
		if id.Kind() != c.want {
			t.Errorf("to all addresses, among %q: %s", c.among, id.Kind())
		}
		if err := id.SetDevices(nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("once it is bound: %v", err)
		}
	}
}

// A queue pair that an application has taken to INIT by itself stays as it is:
// iw_cm gives it a stream and nothing else.
func TestIWARPTakesQueuePairsInINIT(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(IWARP, loopback4, 1)
	client := a.resolvedOf(IWARP, l.LocalAddr())
	qp := client.ReleaseQP()
	check(t, qp.Modify(&ib.QPAttr{AccessFlags: ib.AccessRemoteRead}, ib.QPAccessFlags))
	check(t, client.UseQP(qp))
	server := f.establish(client, l)
	if attr, _ := qp.Query(); attr.State != ib.QPRTS || attr.AccessFlags != ib.AccessRemoteRead {
		t.Errorf("%v with %v", attr.State, attr.AccessFlags)
	}
	check(t, client.Disconnect())
	client.want(Disconnected)
	server.want(Disconnected)
}

// A process that destroys the queue pair gets the event of the end as one that closes does:
// cmtime(1) does so and waits.
func TestIWARPEndsWithItsQueuePair(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	for _, kind := range []Kind{IWARP, TRP} {
		l := b.newID(TCP)
		check(t, l.SetKind(kind))
		check(t, l.BindAddr(netip.AddrPortFrom(loopback4, 0)))
		check(t, l.Listen(1))
		id := a.newID(TCP)
		check(t, id.SetKind(kind))
		check(t, id.ResolveAddr(context.Background(), netip.AddrPort{}, l.LocalAddr()))
		id.want(AddrResolved)
		check(t, id.ResolveRoute())
		id.want(RouteResolved)
		client := id.equip(ib.QPTypeRC)
		server := f.establish(client, l)
		check(t, client.DestroyQP())
		client.want(Disconnected)
		check(t, client.ID.Disconnect())
		server.want(Disconnected)
	}
}
