// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// ListenerID names a listener of an Agent. Ids are never used again.
type ListenerID uint64

// listener takes the requests for one service id.
type listener struct {
	id      ListenerID
	service cm.ServiceID
	addr    netip.Addr // one local address, unspecified for all of its family, invalid for all
	backlog int
	waiting int // requests neither accepted nor rejected
}

// Listen takes requests for a service id that come to addr: to any address if addr is the zero
// Addr, to any of its family if it is 0.0.0.0 or ::. At most backlog requests wait to be accepted,
// 1,024 if it is not positive. Before that each waits for its peer's answer to a challenge, and
// then for room, see held.go. ErrInUse says that the service id is listened to at this address, or
// that one of the two means all addresses.
func (a *Agent) Listen(service cm.ServiceID, addr netip.Addr, backlog int) (ListenerID, error) {
	if backlog <= 0 || backlog > defaultBacklog {
		backlog = defaultBacklog
	}
	l := &listener{service: service, addr: plainAddr(addr), backlog: backlog}
	for _, other := range a.services[service] {
		if l.takes(other.addr) || other.takes(l.addr) {
			return 0, ErrInUse
		}
	}
	a.lastID++
	l.id = ListenerID(a.lastID)
	a.listeners[l.id] = l
	a.services[service] = append(a.services[service], l)
	a.listens(service)
	return l.id, nil
}

// takes reports whether l listens at an address.
func (l *listener) takes(addr netip.Addr) bool {
	switch {
	case !l.addr.IsValid():
		return true
	case l.addr.IsUnspecified():
		return addr.IsValid() && l.addr.Is4() == addr.Is4()
	}
	return l.addr == addr
}

// match returns the listener for a request.
func (a *Agent) match(service cm.ServiceID, addr netip.Addr) *listener {
	for _, l := range a.services[service] {
		if l.takes(plainAddr(addr)) {
			return l
		}
	}
	return nil
}

// CloseListener takes no more requests. Those whose event was not polled yet
// are rejected; the others go on. Requests that come soon after wait a moment for
// the next listener of the service id.
func (a *Agent) CloseListener(now monotime.Time, id ListenerID) error {
	l := a.listeners[id]
	if l == nil {
		return ErrUnknown
	}
	delete(a.listeners, id)
	a.Expect(now, l.service)
	all := a.services[l.service]
	for i := range all {
		if all[i] == l {
			a.services[l.service] = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(a.services[l.service]) == 0 {
		delete(a.services, l.service)
	}
	for i := a.eventHead; i < len(a.events); i++ {
		if ev := &a.events[i]; ev.Listener == id && ev.conn.owned && !ev.conn.delivered {
			a.Destroy(now, ev.conn.id)
		}
	}
	return nil
}
