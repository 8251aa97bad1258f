package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
)

// Listen takes requests to the bound address: rdma_listen(3). Each raises
// ConnectRequest with an ID of its own. An ID that is not bound listens on a
// port of the system's choice on all addresses. At most backlog requests wait to
// be accepted or rejected, 1,024 if it is not positive; the peers of more try
// again.
//
// Errors: EADDRINUSE if the port is taken; that of the address if UDP port 4791
// is to be had on none of the addresses.
func (id *ID) Listen(backlog int) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Listen", stIdle, stBound); err != nil {
		return err
	}
	if id.state == stIdle {
		if err := id.bindLocked(netip.AddrPortFrom(netip.IPv6Unspecified(), 0), true); err != nil {
			return err
		}
	}
	m, scope := id.mgr, id.bound.scope
	// First the agent: opening the ports of all addresses takes milliseconds, and
	// an application may have told its peer the port it is bound to before.
	err := m.command(func(a *ibcm.Agent, now monotime.Time) (err error) {
		id.listener, err = a.Listen(id.bound.service, scope, backlog)
		if err == nil {
			m.listeners[id.listener] = id
		}
		return err
	})
	if errors.Is(err, ibcm.ErrInUse) {
		return fail(syscall.EADDRINUSE, "address", "%v is being listened to", id.local)
	}
	if err != nil {
		return err
	}
	if err := id.openPortsLocked(); err != nil {
		_ = m.command(func(a *ibcm.Agent, now monotime.Time) error {
			delete(m.listeners, id.listener)
			return a.CloseListener(now, id.listener)
		}) // it is there: it was made above
		return err
	}
	id.state = stListening
	return nil
}

// openPortsLocked makes requests to the identifier's address arrive here.
func (id *ID) openPortsLocked() error {
	if id.local.Addr().IsUnspecified() {
		scope := id.bound.scope
		dual := !scope.IsValid()
		if err := id.mgr.listenAll(dual || scope.Is4(), dual || scope.Is6()); err != nil {
			return err
		}
	}
	return id.mgr.ports.listen(id.bound)
}
