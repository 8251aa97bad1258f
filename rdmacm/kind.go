// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/verbs"
)

// Kind is a kind of devices: the transport, and with it the connection manager's
// protocol.
type Kind = device.Kind

// Kinds.
const (
	RoCE  = device.KindRoCE  // RoCEv2, and the InfiniBand connection manager's messages: what an ID is for unless SetKind says otherwise
	IWARP = device.KindIWARP // iWARP over TCP, and MPA's set-up of streams: the TCP port space only
	TRP   = device.KindTRP   // iWARP over UDP, and TRP's own set-up: the TCP port space only, whose ports are UDP's here
	NTB   = device.KindNTB   // links of windows, which the InfiniBand connection manager's messages go over as well: TCP and IB, reliable connections only
)

// SetKind says which kind of devices the ID is for: one address may be that of
// a RoCE device and of an iWARP device. Without it the ID is for RoCE, or, where
// its address is only a link's, or its peer's the other end's, for NTB.
//
// Errors: EINVAL once the ID is bound; EOPNOTSUPP for a kind that there is not,
// or that does not have the ID's port space.
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
	if k == NTB && (id.ps == UDP || id.typ != 0 && id.typ != ib.QPTypeRC) || k != RoCE && k != NTB && id.ps != TCP {
		return fail(syscall.EOPNOTSUPP, "kind", "%s has no port space %v", k, id.ps)
	}
	if k == id.kind {
		return nil
	}
	proto := id.mgr.connector(id, k)
	if proto == nil {
		return fail(syscall.EOPNOTSUPP, "kind", "%q: there is none of this name", k)
	}
	id.kind, id.proto = k, proto
	return nil
}

// Selection is which devices an ID may be on, and in which order they are looked
// at: kinds, and devices by name.
type Selection = device.Selection

// SetDevices says which devices the ID may be on. It is bound to the first of
// them that has its address, and is for that device's kind from then on; bound to
// a wildcard address it is for the first kind that has the ID's port space.
// ENODEV is the error of an address that none of them has.
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

// find returns the device that has a local address, among those that the ID may
// be on. While it is not bound that settles its kind. The caller holds mu.
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
	return localAddr{}, fail(syscall.ENODEV, "address", "%v: none of the devices %v has it and port space %v", ip, id.allowed, id.ps)
}

// findAny settles the kind of an ID that is bound to all addresses. The caller
// holds mu.
func (id *ID) findAny() error {
	if len(id.allowed) == 0 {
		return nil
	}
	for _, k := range id.allowed.Kinds() {
		if id.settleKind(k) == nil {
			return nil
		}
	}
	return fail(syscall.ENODEV, "port space", "%v: none of the devices %v has it", id.ps, id.allowed)
}

// connector returns an identifier's side of the protocol of a kind, nil if there
// is no such kind.
func (m *manager) connector(id *ID, k Kind) connector {
	switch k {
	case RoCE:
		return m.ib.newConnector(id)
	case IWARP:
		return m.iw.newConnector(id)
	case TRP:
		return m.trp.newConnector(id)
	case NTB:
		return m.ntb.newConnector(id)
	}
	return nil
}

// Kind returns the kind of devices that the ID is for.
func (id *ID) Kind() Kind {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.kind
}
