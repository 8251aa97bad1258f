// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"verbena/rdmacm"
	"verbena/verbs"
)

// clientLID is the LID field of a client's address: it tells the kind of an iWARP or TRP device.
// Ethernet has no LIDs. A server's field is the port of its connection manager.
var clientLID = map[rdmacm.Kind]uint16{rdmacm.IWARP: 0xffff, rdmacm.TRP: 0xfffe}

// cmPatience bounds the time that the other side's connection manager may take.
const cmPatience = 10 * time.Second

// managed connects the queue pairs of a device of iWARP, which only the
// connection manager can. The client asks for one connection after the other; the
// private data of a request are the address that it is for.
type managed struct {
	e        *endpoint
	info     verbs.DeviceInfo
	events   *rdmacm.EventChannel
	listener *rdmacm.ID // server only
	conn     net.Conn   // over which addresses were exchanged
}

// keep keeps the connection over which addresses are exchanged, for part.
func (m *managed) keep(conn net.Conn) {
	m.conn = conn
	m.e.onClose(conn.Close)
}

// part waits until the peer is done, too. With several queue pairs messages are
// under way on the others when the last one is counted: whose streams ended then
// would find its work flushed.
func (m *managed) part(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = m.conn.SetDeadline(time.Now()) })
	defer stop()
	// A peer that has gone is done as well.
	if _, err := m.conn.Write([]byte{0}); err == nil {
		_, _ = m.conn.Read(make([]byte, 1))
	}
}

// manage returns the connector, and the LID of the local addresses.
func (e *endpoint) manage() (*managed, uint16, error) {
	m := &managed{e: e, info: e.dev.Info(), events: rdmacm.NewEventChannel()}
	e.onClose(func() error { m.events.Close(); return nil })
	if e.o.host != "" {
		return m, clientLID[m.info.Kind], nil
	}
	var err error
	if m.listener, err = m.newID(); err != nil {
		return nil, 0, err
	}
	if err := m.listener.Listen(e.o.qps); err != nil {
		return nil, 0, fmt.Errorf("cannot listen for connections: %w", err)
	}
	return m, m.listener.LocalAddr().Port(), nil
}

func (m *managed) newID() (*rdmacm.ID, error) {
	id, err := m.e.o.dev.NewID(m.events, rdmacm.TCP)
	if err != nil {
		return nil, err
	}
	m.e.onClose(id.Destroy)
	return id, id.SetKind(m.info.Kind)
}

// check refuses, as a server, a client that is not of our kind.
func (m *managed) check(theirs []Address) error {
	if theirs[0].LID != clientLID[m.info.Kind] {
		return fmt.Errorf("%s is of kind %s, the client's device is of another: choose with -d "+
			"on both sides", m.info.Name, m.info.Kind)
	}
	return nil
}

// adopt gives an identifier, which has its device, a queue pair of ours.
func (m *managed) adopt(id *rdmacm.ID, i int) error {
	if got := id.Verbs().Info().Name; got != m.info.Name {
		return fmt.Errorf("the way to the peer is device %s, not %s: say -d %s", got,
			m.info.Name, got)
	}
	if err := id.UseQP(m.e.qps[i]); err != nil {
		return err
	}
	m.e.onClose(func() error { id.ReleaseQP(); return nil })
	m.e.onClose(id.Disconnect)
	return nil
}

func (m *managed) param(i int) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{PrivateData: m.e.local[i].Append(nil), ResponderResources: 1,
		InitiatorDepth: 1}
}

// dialAll connects all queue pairs, as a client, to the server at a host.
func (m *managed) dialAll(ctx context.Context, host netip.Addr, theirs []Address) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmPatience,
		errors.New("the server's connection manager does not answer; see its message"))
	defer cancel()
	to := netip.AddrPortFrom(host, theirs[0].LID)
	if to.Port() == 0 {
		return fmt.Errorf("%s is of kind %s, the server's device is of another: choose with -d "+
			"on both sides", m.info.Name, m.info.Kind)
	}
	for i := range m.e.qps {
		if err := m.dial(ctx, i, to); err != nil {
			return fmt.Errorf("cannot connect to %v: %w", to, err)
		}
	}
	return nil
}

func (m *managed) dial(ctx context.Context, i int, to netip.AddrPort) error {
	id, err := m.newID()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		begin func() error
		done  rdmacm.EventType
	}{
		{func() error { return id.ResolveAddr(ctx, netip.AddrPort{}, to) }, rdmacm.AddrResolved},
		{id.ResolveRoute, rdmacm.RouteResolved},
		{func() error {
			if err := m.adopt(id, i); err != nil {
				return err
			}
			return id.Connect(m.param(i))
		}, rdmacm.Established},
	} {
		if err := step.begin(); err != nil {
			return err
		}
		ev, err := m.events.Get(ctx)
		switch {
		case err != nil:
			return cmp.Or(context.Cause(ctx), err)
		case ev.Err != nil:
			return ev.Err
		case ev.Type != step.done:
			return fmt.Errorf("%v instead of %v", ev.Type, step.done)
		}
	}
	return nil
}

// acceptAll takes, as a server, the client's connections until all queue pairs
// have one.
func (m *managed) acceptAll(ctx context.Context, theirs []Address) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmPatience,
		errors.New("the client does not connect; see its message"))
	defer cancel()
	taken := make([]bool, len(m.e.qps))
	for up := 0; up < len(m.e.qps); {
		ev, err := m.events.Get(ctx)
		switch {
		case err != nil:
			return cmp.Or(context.Cause(ctx), err)
		case ev.Err != nil:
			return ev.Err
		case ev.Type == rdmacm.ConnectRequest:
			m.e.onClose(ev.ID.Destroy)
			i := m.wanted(ev, theirs)
			if i < 0 || taken[i] { // a stranger; our client may still come
				err = ev.ID.Reject(nil)
				break
			}
			if taken[i], err = true, m.adopt(ev.ID, i); err == nil {
				err = ev.ID.Accept(m.param(i))
			}
		case ev.Type == rdmacm.Established:
			up++
		default:
			err = fmt.Errorf("%v while connections are made", ev.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wanted returns which queue pair a request is for, negative if none.
func (m *managed) wanted(ev *rdmacm.Event, theirs []Address) int {
	a, ok := ParseAddress(ev.PrivateData)
	if !ok {
		return -1
	}
	return slices.Index(theirs[:len(m.e.qps)], a)
}
