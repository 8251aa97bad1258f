// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"verbena/internal/device"
	"verbena/verbs"
)

// Kind is a kind of devices: the transport, and with it the connection manager's protocol.
type Kind = device.Kind

// Kinds.
const (
	// RoCE is RoCEv2 with the InfiniBand connection manager's messages. An ID is for it unless
	// SetKind says otherwise.
	RoCE = device.KindRoCE
	// IWARP is iWARP over TCP, with MPA's set-up of streams: the TCP port space only.
	IWARP = device.KindIWARP
	// TRP is iWARP over UDP, with TRP's own set-up: the TCP port space only, whose ports are UDP's.
	TRP = device.KindTRP
	// NTB is NTB links, which carry the InfiniBand connection manager's messages as well: reliable
	// connections only, in the TCP and IB port spaces.
	NTB = device.KindNTB
)

// SetKind makes the ID one for a kind of devices: a RoCE device and an iWARP device may have the
// same address. Without SetKind the ID is for RoCE, or for NTB where only a link has its address or
// its peer's.
//
// Errors: EINVAL once the ID is bound; EOPNOTSUPP for an unknown kind, or one that does not have
// the ID's port space.
func (id *ID) SetKind(k Kind) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("SetKind", stIdle); err != nil {
		return err
	}
	if err := id.settleKind(k); err != nil {
		return err
	}
	id.allowed, id.kindPinned = nil, true
	return nil
}

// settleKind makes the ID one for a kind of devices. The caller holds mu.
func (id *ID) settleKind(k Kind) error {
	s := id.mgr.servers[k]
	switch {
	case s == nil:
		return fail(syscall.EOPNOTSUPP, "kind", "%q: there is none of this name", k)
	case !s.has(id.ps, id.typ):
		return fail(syscall.EOPNOTSUPP, "kind", "%s has no port space %v", k, id.ps)
	case k != id.kind:
		id.kind, id.proto = k, s.connectorFor(id)
	}
	return nil
}

// Selection lists devices, by kind and by name, in the order in which an ID tries them.
type Selection = device.Selection

// SetDevices limits the devices that the ID may be on. BindAddr takes the first of them that has
// the address, and with it the device's kind. At a wildcard address the ID is for the first kind
// that has its port space. An address that none of them has is ENODEV.
//
// Errors: EINVAL once the ID is bound.
func (id *ID) SetDevices(s Selection) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("SetDevices", stIdle); err != nil {
		return err
	}
	id.allowed = s
	return nil
}

// mayUse reports whether SetDevices allows a device, mayBe whether it allows a kind. The caller
// holds mu.
func (id *ID) mayUse(info *verbs.DeviceInfo) bool {
	return len(id.allowed) == 0 || id.allowed.Has(info)
}

func (id *ID) mayBe(k Kind) bool {
	return len(id.allowed) == 0 || slices.Contains(id.allowed.Kinds(), k)
}

// find returns the device that has a local address, among those that the ID may be on. While the ID
// is not bound, find settles its kind. The caller holds mu.
func (id *ID) find(ip netip.Addr) (localAddr, error) {
	if len(id.allowed) == 0 || id.state != stIdle {
		at, err := id.mgr.locate(id.kind, ip)
		if errors.Is(err, syscall.ENODEV) && !id.kindPinned && id.state == stIdle {
			if onLink, err := id.mgr.locate(NTB, ip); err == nil && id.settleKind(NTB) == nil {
				return onLink, nil
			}
		}
		return at, err
	}
	for _, k := range id.allowed.Kinds() {
		at, err := id.mgr.locate(k, ip)
		if errors.Is(err, syscall.ENODEV) {
			continue
		}
		if err != nil {
			return localAddr{}, err
		}
		if info := at.verbs.Info(); id.allowed.Has(&info) && id.settleKind(k) == nil {
			return at, nil
		}
	}
	return localAddr{}, fail(syscall.ENODEV, "address",
		"%v: none of the devices %v has it and port space %v", ip, id.allowed, id.ps)
}

// findAny settles the kind of an ID that is bound to all addresses. The caller holds mu.
func (id *ID) findAny() error {
	if len(id.allowed) == 0 {
		return nil
	}
	for _, k := range id.allowed.Kinds() {
		if id.settleKind(k) == nil {
			return nil
		}
	}
	return fail(syscall.ENODEV, "port space", "%v: none of the devices %v has it", id.ps,
		id.allowed)
}

// Kind returns the ID's kind of devices.
func (id *ID) Kind() Kind {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.kind
}
