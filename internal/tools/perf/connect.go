// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/sys/portshare"
	"verbena/rdmacm"
)

// connector makes and connects the queue pairs of a session.
type connector interface {
	// makeQPs is called before the offers are exchanged and returns this side's. The server is
	// ready for connections when it returns.
	makeQPs(ctx context.Context) ([]QPAddr, error)
	// connectQPs is called after that.
	connectQPs(ctx context.Context, peer *Offer) error
}

func (s *session) connector() connector {
	if s.o.rdmacm {
		return &managed{e: s.e, o: s.o, events: rdmacm.NewEventChannel()}
	}
	return &direct{e: s.e}
}

// direct connects by the addresses in the offers.
type direct struct {
	e    *endpoint
	mine []QPAddr
}

func (d *direct) makeQPs(context.Context) (list []QPAddr, err error) {
	d.mine, err = d.e.createQPs()
	return d.mine, err
}

func (d *direct) connectQPs(_ context.Context, peer *Offer) error {
	return d.e.connectQPs(d.mine, peer)
}

// managed connects by the connection manager. The client connects one queue pair after the other;
// the request's private data begin with the index (2) and the number (4) of the queue pair. UD has
// no connection, only a request and an answer; each says where datagrams go.
type managed struct {
	e        *endpoint
	o        *options
	events   *rdmacm.EventChannel
	listener *rdmacm.ID // server only
}

const aboutBytes = 2 + 4

func (m *managed) makeQPs(context.Context) ([]QPAddr, error) {
	m.e.onClose(func() error { m.events.Close(); return nil })
	if m.o.host == "" {
		if err := m.listen(); err != nil {
			return nil, err
		}
	}
	return make([]QPAddr, len(m.e.flows)), nil // the connection manager exchanges the numbers
}

func (m *managed) listen() error {
	var err error
	if m.listener, err = m.o.dev.NewID(m.events, m.o.service.portSpace()); err != nil {
		return err
	}
	m.e.onClose(m.listener.Destroy)
	at := netip.AddrPortFrom(m.e.sgid.GID.Addr(), uint16(m.o.port))
	if m.e.dev.Info().Kind == rdmacm.IWARP {
		// TCP's port is that of the control connection: any other, and the offer tells
		at = netip.AddrPortFrom(at.Addr(), 0)
	}
	var udp *portshare.PortError
	if err := m.listener.BindAddr(at); errors.As(err, &udp) {
		return udp // not --port but UDP port 4791
	} else if err != nil {
		return fmt.Errorf("cannot listen on %v: %w; choose another --port", at, err)
	}
	m.e.cmPort = m.listener.LocalAddr().Port()
	return m.listener.Listen(len(m.e.flows))
}

func (m *managed) connectQPs(ctx context.Context, peer *Offer) error {
	if m.o.host == "" {
		return m.acceptAll(ctx, peer)
	}
	to := netip.AddrPortFrom(netip.AddrFrom16(peer.GID).Unmap(),
		cmp.Or(peer.Port, uint16(m.o.port)))
	for i := range m.e.flows {
		if err := m.dialInTime(ctx, i, to); err != nil {
			return fmt.Errorf("queue pair %d: cannot connect to %v: %w", i, to, err)
		}
	}
	return nil
}

// errNoAnswer explains the connection manager's silence: the server is there, since it answers on
// TCP.
var errNoAnswer = errors.New("no answer from the connection manager there; check the route to " +
	"that address and, for RoCE, that UDP port 4791 is open")

// dialInTime is dial, but not for longer than our patience.
func (m *managed) dialInTime(ctx context.Context, i int, to netip.AddrPort) error {
	bounded, cancel := context.WithTimeout(ctx, m.o.patience)
	defer cancel()
	err := m.dial(bounded, i, to)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return errNoAnswer
	}
	return err
}

// param are the parameters of every connection; the private data tell which.
func (m *managed) param(i int) *rdmacm.ConnParam {
	about := binary.BigEndian.AppendUint16(nil, uint16(i))
	return &rdmacm.ConnParam{
		PrivateData:        binary.BigEndian.AppendUint32(about, uint32(m.e.flows[i].qp.QPN())),
		ResponderResources: m.e.rdAtom, InitiatorDepth: m.e.rdAtom, RetryCount: retries,
		RNRRetryCount: retries,
	}
}

// adopt gives an identifier a queue pair of ours.
func (m *managed) adopt(id *rdmacm.ID, i int) error {
	if got, want := id.Verbs().Info().Name, m.e.dev.Info().Name; got != want {
		return fmt.Errorf("the way there is device %s, not %s: say -d %s", got, want, got)
	}
	if err := id.CreateQP(m.e.pd, m.e.qpInit()); err != nil {
		return err
	}
	m.e.onClose(id.DestroyQP)
	if m.o.service != serviceUD {
		m.e.onClose(id.Disconnect)
	}
	m.e.flows[i].qp = id.QP()
	return nil
}

func (m *managed) dial(ctx context.Context, i int, to netip.AddrPort) error {
	id, err := m.o.dev.NewID(m.events, m.o.service.portSpace())
	if err != nil {
		return err
	}
	m.e.onClose(id.Destroy)
	if err := id.ResolveAddr(ctx, netip.AddrPort{}, to); err != nil {
		return err
	}
	if _, err := m.expect(ctx, rdmacm.AddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(); err != nil {
		return err
	}
	if _, err := m.expect(ctx, rdmacm.RouteResolved); err != nil {
		return err
	}
	if err := m.adopt(id, i); err != nil {
		return err
	}
	if err := id.Connect(m.param(i)); err != nil {
		return err
	}
	ev, err := m.expect(ctx, rdmacm.Established)
	if err != nil || m.o.service != serviceUD {
		return err
	}
	return m.e.sendTo(i, ev.UD.AH, ev.UD.QPN, ev.UD.QKey)
}

func (m *managed) expect(ctx context.Context, want rdmacm.EventType) (*rdmacm.Event, error) {
	ev, err := m.events.Get(ctx)
	switch {
	case err != nil:
		return nil, err
	case ev.Type == want:
		return ev, nil
	case ev.Err != nil:
		return nil, ev.Err
	}
	return nil, fmt.Errorf("%v instead of %v", ev.Type, want)
}

// errNoRequest explains to the server why a client is silent.
var errNoRequest = errors.New("the client does not connect by the connection manager; see its " +
	"message, and check the route to it")

// nextInTime waits for an event as long as a client tries.
func (m *managed) nextInTime(ctx context.Context) (*rdmacm.Event, error) {
	bounded, cancel := context.WithTimeout(ctx, m.o.patience)
	defer cancel()
	return m.events.Get(bounded)
}

// acceptAll takes the client's connections until all queue pairs have one.
func (m *managed) acceptAll(ctx context.Context, peer *Offer) error {
	for up := 0; up < len(m.e.flows); {
		ev, err := m.nextInTime(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return errNoRequest
		case err != nil:
			return err
		case ev.Err != nil:
			return ev.Err
		case ev.Type == rdmacm.ConnectRequest:
			accepted, err := m.accept(ev, peer)
			if err != nil {
				return err
			}
			if accepted && m.o.service == serviceUD {
				up++ // nothing more comes
			}
		case ev.Type == rdmacm.Established:
			up++
		case ev.Type == rdmacm.Disconnected:
			return errors.New("the client disconnected early")
		}
	}
	return nil
}

// accept takes a request and reports whether it was our client's.
func (m *managed) accept(ev *rdmacm.Event, peer *Offer) (bool, error) {
	m.e.onClose(ev.ID.Destroy)
	i, qpn := len(m.e.flows), ib.QPN(0)
	if about := ev.PrivateData; len(about) >= aboutBytes {
		i, qpn = int(binary.BigEndian.Uint16(about)), ib.QPN(binary.BigEndian.Uint32(about[2:]))
	}
	if i >= len(m.e.flows) || m.e.flows[i].qp != nil {
		return false, ev.ID.Reject(nil) // a stranger; our client may still come
	}
	if err := m.adopt(ev.ID, i); err != nil {
		return false, err
	}
	if m.o.service == serviceUD {
		if err := m.e.sendTo(i, m.e.pathTo(peer), qpn, rdmacm.UDQKey); err != nil {
			return false, err
		}
	}
	return true, ev.ID.Accept(m.param(i))
}
