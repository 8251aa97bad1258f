// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"verbena/internal/sys/portshare"
	"verbena/rdmacm"
)

const (
	backlog = 3 // rping's

	// maxClients bounds the clients that a persistent server serves at once; more are rejected.
	maxClients = 128

	settleTime = 50 * time.Millisecond
)

// runServer serves one client, or any number if persistent.
func runServer(ctx context.Context, o *options, out, log io.Writer) error {
	l, err := listen(ctx, o)
	if err != nil {
		return err
	}
	if o.listening != nil {
		o.listening(l.id.LocalAddr())
	}
	if o.debug {
		fmt.Fprintf(log, "rdma_listen on %v\n", l.id.LocalAddr())
	}
	defer l.events.Close()
	defer l.id.Destroy()
	if !o.persistent {
		child, err := l.next(ctx)
		if err != nil {
			return err
		}
		return child.serve(ctx, o, out, log)
	}
	return l.serveAll(ctx, o, &lineWriter{w: out}, &lineWriter{w: log})
}

func listen(ctx context.Context, o *options) (*link, error) {
	addr := netip.IPv6Unspecified()
	if o.addr != "" {
		var err error
		if addr, err = lookup(ctx, o.addr); err != nil {
			return nil, err
		}
	}
	l := &link{events: rdmacm.NewEventChannel()}
	var err error
	if l.id, err = o.dev.NewID(l.events, rdmacm.TCP); err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(addr, uint16(o.port))
	if err = l.id.BindAddr(at); err == nil {
		err = l.id.Listen(backlog)
	}
	if err == nil {
		return l, nil
	}
	l.id.Destroy()
	l.events.Close()
	return nil, explainListen(at, err)
}

// explainListen advises on a port that cannot be listened on.
func explainListen(at netip.AddrPort, err error) error {
	var udp *portshare.PortError
	switch {
	case errors.As(err, &udp):
		return udp // not the port of -p: UDP port 4791, which carries them all
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d is in use (%w); choose another with -p", at.Port(), err)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("no device has the address %v (%w); see 'verbena devinfo -v' for those "+
			"there are", at.Addr(), err)
	}
	return fmt.Errorf("cannot listen on %v: %w", at, err)
}

// next waits for a client and gives it an event channel of its own.
func (l *link) next(ctx context.Context) (*link, error) {
	for {
		ev, err := l.events.Get(ctx)
		if err != nil {
			return nil, err
		}
		if ev.Type != rdmacm.ConnectRequest {
			continue
		}
		child := &link{id: ev.ID, events: rdmacm.NewEventChannel()}
		if err := child.id.Migrate(child.events); err != nil {
			return nil, err
		}
		return child, nil
	}
}

// serveAll serves clients side by side until interrupted.
func (l *link) serveAll(ctx context.Context, o *options, out, log io.Writer) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	places := make(chan struct{}, maxClients)
	for {
		child, err := l.next(ctx)
		if err != nil {
			return err
		}
		select {
		case places <- struct{}{}:
		default:
			child.id.Reject(nil)
			child.id.Destroy()
			child.events.Close()
			continue
		}
		clients.Go(func() {
			defer func() { <-places }()
			if err := child.serve(ctx, o, out, log); err != nil && ctx.Err() == nil {
				fmt.Fprintf(log, "verbena: client %v: %v\n", child.id.PeerAddr(), err)
			}
		})
	}
}

// serve accepts a client and serves it until it disconnects, which is success.
func (l *link) serve(ctx context.Context, o *options, out, log io.Writer) error {
	s := &session{o: o, out: out, log: log, server: true}
	defer l.events.Close()
	defer l.id.Destroy()
	defer s.close()
	defer l.id.DestroyQP()
	if err := l.equip(s); err != nil {
		l.id.Reject(nil)
		return err
	}
	s.debugf("accepting client connection request")
	if err := l.id.Accept(connParam()); err != nil {
		return fmt.Errorf("cannot accept: %w", err)
	}
	live, ended := l.watch(ctx, s)
	var err error
	if o.mode() == modePing {
		err = s.pingServer(live)
	} else {
		err = s.measure(live)
	}
	if errors.Is(err, errDisconnected) {
		awaitEnd(ctx, ended) // a flushed completion may be ahead of the event
		fmt.Fprintln(log, "server DISCONNECT EVENT...")
		err = nil
	}
	_ = l.id.Disconnect() // answers the client; fails only if the connection is gone already
	l.settle(ctx)
	return err
}

// settle gives the answer to the client's goodbye time to leave before the
// process ends: the identifier then goes to its time-wait.
func (l *link) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		ev, err := l.events.Get(ctx)
		if err != nil || ev.Type == rdmacm.TimewaitExit {
			return
		}
	}
}

// lineWriter lets several goroutines write lines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
