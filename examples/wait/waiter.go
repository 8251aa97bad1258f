// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"errors"
	"net/netip"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

var (
	errDisconnected = errors.New("the peer has disconnected")
	errDone         = errors.New("done") // ends waiter.completions
)

// waiter is a completion queue with a channel that announces its completions.
type waiter struct {
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
}

// newWaiter makes a waiter on the device to which bind binds an identifier.
func newWaiter(addr string, bind func(*rdmacm.ID, netip.AddrPort) error) (*waiter, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	events := rdmacm.NewEventChannel()
	defer events.Close()
	id, err := rdmacm.NewID(events, rdmacm.TCP)
	if err != nil {
		return nil, err
	}
	defer id.Destroy()
	if err := bind(id, at); err != nil {
		return nil, err
	}
	if id.Verbs() == nil {
		return nil, errors.New(addr + " is not the address of one interface")
	}
	// Destroying the identifier may close its own context.
	dev, err := verbs.Open(id.Verbs().Info().Name)
	if err != nil {
		return nil, err
	}
	w := &waiter{}
	if w.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if w.channel, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	w.cq, err = dev.CreateCQ(posted, w.channel)
	return w, err
}

// completions calls handle for each completion until ctx ends or handle fails. It asks to be
// notified before it polls, so that a completion that comes between is not missed.
func (w *waiter) completions(ctx context.Context, handle func(ib.WC) error) error {
	var wc [1]ib.WC
	for {
		if err := w.cq.RequestNotify(false); err != nil {
			return err
		}
		for {
			n, err := w.cq.Poll(wc[:])
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			switch err := wc[0].Err(); {
			case wc[0].Status == ib.WCWRFlushErr: // ctx says why the queue pair ended
			case err != nil:
				return err
			default:
				if err := handle(wc[0]); err != nil {
					return err
				}
			}
		}
		if _, err := w.channel.Wait(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
}

// untilDisconnected returns a context that ends when the peer disconnects or dies.
func untilDisconnected(ctx context.Context, c *rdmacm.Conn) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		if err := c.Wait(ctx); err != nil {
			cancel(err)
			return
		}
		cancel(errDisconnected)
	}()
	return ctx
}
