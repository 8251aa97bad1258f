// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"verbena/internal/sys/portshare"
	"verbena/internal/tools/cli"
	"verbena/rdmacm"
)

// disconnectTimeout bounds the wait for the peer to see that we are done.
const disconnectTimeout = 2 * time.Second

// rping's parameters: one READ at a time each way, and patience.
func connParam() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7,
		RNRRetryCount: 7}
}

// link is a connection manager identifier with its events.
type link struct {
	id     *rdmacm.ID
	events *rdmacm.EventChannel
}

// expect waits for an event; another that comes instead is an error.
func (l *link) expect(ctx context.Context, want rdmacm.EventType) error {
	ev, err := l.events.Get(ctx)
	switch {
	case err != nil:
		return err
	case ev.Type == want:
		return nil
	case ev.Err != nil:
		return ev.Err
	}
	return fmt.Errorf("%v instead of %v", ev.Type, want)
}

// watch cancels the context it returns when the connection ends.
func (l *link) watch(parent context.Context, s *session) (ctx context.Context,
	ended <-chan struct{}) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ev, err := l.events.Get(ctx)
			if err != nil {
				cancel(err)
				return
			}
			s.debugf("cma_event type %v", ev.Type)
			switch {
			case ev.Type == rdmacm.Disconnected:
				cancel(errDisconnected)
				return
			case ev.Err != nil:
				cancel(ev.Err)
				return
			}
		}
	}()
	return ctx, done
}

// lookup returns the address of a host.
func lookup(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("there is no host %s: give an IP address or a name that "+
			"resolves", host)
	}
	return list[0].Unmap(), nil
}

// runClient connects, pings and disconnects.
func runClient(ctx context.Context, o *options, out, log io.Writer) error {
	s := &session{o: o, out: out, log: log}
	l, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer l.events.Close()
	defer l.id.Destroy()
	defer s.close()
	defer l.id.DestroyQP()
	live, ended := l.watch(ctx, s)
	if o.mode() == modePing {
		err = s.pingClient(live, cli.NewProgress(log, "pings", int64(o.count)))
	} else {
		err = s.measure(live)
	}
	if errors.Is(err, errDisconnected) {
		return fmt.Errorf("the server disconnected early; see its message")
	}
	_ = l.id.Disconnect() // fails only if the connection is gone already
	if awaitEnd(ctx, ended) {
		fmt.Fprintln(log, "client DISCONNECT EVENT...")
	}
	return err
}

// awaitEnd waits for the connection's end, but not for long.
func awaitEnd(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-time.After(disconnectTimeout):
	case <-ctx.Done():
	}
	return false
}

// dial brings a session to an established connection.
func dial(ctx context.Context, s *session) (*link, error) {
	o := s.o
	addr, err := lookup(ctx, o.addr)
	if err != nil {
		return nil, err
	}
	var source netip.AddrPort
	if o.source != "" {
		from, err := lookup(ctx, o.source)
		if err != nil {
			return nil, err
		}
		source = netip.AddrPortFrom(from, 0)
	}
	l := &link{events: rdmacm.NewEventChannel()}
	if l.id, err = o.dev.NewID(l.events, rdmacm.TCP); err != nil {
		return nil, err
	}
	to := netip.AddrPortFrom(addr, uint16(o.port))
	bounded, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	if err := l.establish(bounded, s, source, to); err != nil {
		_ = l.id.DestroyQP() // may be none
		s.close()
		l.id.Destroy()
		l.events.Close()
		return nil, explainDial(to, err)
	}
	s.debugf("rdma_connect successful")
	return l, nil
}

func (l *link) establish(ctx context.Context, s *session, from, to netip.AddrPort) error {
	if err := l.id.ResolveAddr(ctx, from, to); err != nil {
		return err
	}
	if err := l.expect(ctx, rdmacm.AddrResolved); err != nil {
		return err
	}
	if err := l.id.ResolveRoute(); err != nil {
		return err
	}
	if err := l.expect(ctx, rdmacm.RouteResolved); err != nil {
		return err
	}
	if err := l.equip(s); err != nil {
		return err
	}
	if err := l.id.Connect(connParam()); err != nil {
		return err
	}
	return l.expect(ctx, rdmacm.Established)
}

// equip makes the session's objects, with a receive posted.
func (l *link) equip(s *session) error {
	if err := s.setUp(l.id.Verbs()); err != nil {
		return err
	}
	if err := l.id.CreateQP(s.pd, s.qpInit()); err != nil {
		return err
	}
	return s.adopt(l.id.QP())
}

// explainDial advises on a connection that did not come about.
func explainDial(to netip.AddrPort, err error) error {
	var udp *portshare.PortError
	switch {
	case errors.As(err, &udp):
		return udp
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%v refused the connection (%w); start 'verbena rping -s' there first",
			to, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return fmt.Errorf("%v does not answer (%w); start 'verbena rping -s' there, and check "+
			"the route and, for RoCE, that UDP port 4791 is open", to, syscall.ETIMEDOUT)
	}
	return fmt.Errorf("cannot connect to %v: %w", to, err)
}
