// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"syscall"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
)

// listen takes requests for the bound service id.
func (c *ibConnector) listen(backlog int) error {
	// First the agent: opening the ports of all addresses takes milliseconds, and a peer may know
	// the port already.
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) (err error) {
		c.listener, err = a.Listen(c.bound.service, c.bound.scope, backlog)
		if err == nil {
			c.ib.listeners[c.listener] = c
		}
		return err
	})
	if errors.Is(err, ibcm.ErrInUse) {
		return fail(syscall.EADDRINUSE, "address", "%v is being listened to", c.local)
	}
	if err != nil {
		return err
	}
	if err := c.openPorts(); err != nil {
		_ = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
			delete(c.ib.listeners, c.listener)
			return a.CloseListener(now, c.listener)
		}) // it is there: it was made above
		return err
	}
	return nil
}

// openPorts makes requests to the identifier's address arrive here.
func (c *ibConnector) openPorts() error {
	if c.local.Addr().IsUnspecified() {
		if err := c.openAll(); err != nil {
			return err
		}
	}
	return c.ib.ports.listen(c.bound)
}

// openAll makes requests to any address of the scope that the identifier is bound to arrive here.
func (c *ibConnector) openAll() error {
	scope := c.bound.scope
	dual := !scope.IsValid()
	return c.mgr.listenAll(c.ib.kind, dual || scope.Is4(), dual || scope.Is6())
}
