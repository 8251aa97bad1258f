// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/engine"
	"verbena/verbs"
)

// localAddr is a local address with the device that has it.
type localAddr struct {
	verbs *verbs.Context
	addr  netip.Addr // with its zone, if link-local
}

// mtu returns the path MTU of the device's port.
func (p *localAddr) mtu() ib.MTU {
	info := p.verbs.Info()
	return info.PortAttr().ActiveMTU
}

// sgidIndex returns the index of the address in the GID table now, noGID if it is gone.
func (p *localAddr) sgidIndex() uint8 {
	info := p.verbs.Info()
	addrs, err := info.AddrTable()
	if i := slices.Index(addrs, p.addr); err == nil && i >= 0 && i < noGID {
		return uint8(i)
	}
	return noGID
}

// noGID is an index that no GID table has.
const noGID = 255

// portKey is an address of a kind of devices.
type portKey struct {
	kind Kind
	addr netip.Addr
}

// locate returns the device of a kind that has a local address. It opens the device, and its port
// for MADs where the kind has one.
func (m *manager) locate(kind Kind, addr netip.Addr) (localAddr, error) {
	m.mu.Lock()
	p := m.found[portKey{kind, addr}]
	m.mu.Unlock()
	if !p.holds() {
		var err error
		if p, err = m.findDevice(kind, addr); err != nil {
			return localAddr{}, err
		}
		m.mu.Lock()
		m.found[portKey{kind, addr}] = p
		m.mu.Unlock()
	}
	return p, m.servers[kind].attach(p)
}

// holds reports whether the device still has the address. It asks the system for the addresses of
// one interface, findDevice for those of all.
func (p *localAddr) holds() bool {
	if p.verbs == nil {
		return false
	}
	info := p.verbs.Info()
	addrs, err := info.Addrs()
	return err == nil && slices.Contains(addrs, p.addr)
}

// devicesOf lists the devices of a kind.
func devicesOf(kind Kind) ([]verbs.DeviceInfo, error) {
	infos, err := verbs.Devices()
	return slices.DeleteFunc(infos, func(i verbs.DeviceInfo) bool { return i.Kind != kind }), err
}

// findDevice returns the device of a kind that has a local address, open.
func (m *manager) findDevice(kind Kind, addr netip.Addr) (localAddr, error) {
	infos, err := devicesOf(kind)
	if err != nil {
		return localAddr{}, err
	}
	for _, info := range infos {
		a, ok := m.addrOf(info, addr)
		if !ok {
			continue
		}
		c, err := m.open(info.Name)
		if err != nil {
			return localAddr{}, err
		}
		at := localAddr{c, a}
		if !at.holds() {
			continue // it had the address for either end of a link, and has one end now
		}
		if a.Zone() != "" {
			m.mu.Lock()
			m.zoned[a.WithZone("")] = a
			m.mu.Unlock()
		}
		return at, nil
	}
	return localAddr{}, fail(syscall.ENODEV, "address", "%v: no device of kind %s has it",
		addr, kind)
}

// addrOf returns a device's address that is addr, with its zone, and whether there is one.
func (m *manager) addrOf(info verbs.DeviceInfo, addr netip.Addr) (netip.Addr, bool) {
	if peer, ok := info.PeerPort(); ok && peer == addr {
		if now, err := m.opened(info); err == nil {
			info = now
		}
	}
	addrs, err := info.Addrs()
	if err != nil {
		return netip.Addr{}, false // an interface that has just gone
	}
	i := slices.IndexFunc(addrs, func(a netip.Addr) bool {
		return a.WithZone("") == addr.WithZone("") && (addr.Zone() == "" || a.Zone() == addr.Zone())
	})
	if i < 0 {
		return netip.Addr{}, false
	}
	return addrs[i], true
}

// opened returns a device as it is once it is open: only then it may be known which end of its link
// is ours.
func (m *manager) opened(info verbs.DeviceInfo) (verbs.DeviceInfo, error) {
	c, err := m.open(info.Name)
	if err != nil {
		return info, err
	}
	return c.Info(), nil
}

// engineOf returns the engine of the devices of a kind.
func (m *manager) engineOf(kind Kind) (*engine.Engine, error) {
	infos, err := devicesOf(kind)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, fail(syscall.ENODEV, "kind", "there is no device of kind %s", kind)
	}
	c, err := m.open(infos[0].Name)
	if err != nil {
		return nil, err
	}
	return (*core.Context)(c).Engine(), nil
}

// open returns the manager's context of a device.
func (m *manager) open(name string) (*verbs.Context, error) {
	m.devMu.Lock()
	defer m.devMu.Unlock()
	if c := m.devices[name]; c != nil {
		return c, nil
	}
	c, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	m.devices[name] = c
	return c, nil
}

// listenAll opens all addresses of a kind of devices for MADs, of one family or both. An address
// that cannot be opened is left out. It fails if another program has all addresses of a family, as
// the listener's peers would wait in vain.
func (m *manager) listenAll(kind Kind, v4, v6 bool) error {
	infos, err := devicesOf(kind)
	if err != nil {
		return err
	}
	var four, six family
	for _, info := range infos {
		if kind.HasLinks() {
			if info, err = m.opened(info); err != nil {
				four.count(err)
				six.count(err)
				continue
			}
		}
		addrs, err := info.Addrs()
		if err != nil {
			continue // an interface that has just gone
		}
		for _, a := range addrs {
			switch {
			case a.Is4() && v4:
				_, err := m.locate(kind, a)
				four.count(err)
			case a.Is6() && v6:
				_, err := m.locate(kind, a)
				six.count(err)
			}
		}
	}
	switch {
	case four.taken() != nil:
		return four.taken()
	case six.taken() != nil:
		return six.taken()
	case four.usable || six.usable:
		return nil
	}
	return cmp.Or(four.err, six.err, fail(syscall.ENODEV, "address", "no device has an address"))
}

// family sums up whether the addresses of a family could be opened.
type family struct {
	usable bool
	err    error // of one that is not, EADDRINUSE before others
}

func (f *family) count(err error) {
	f.usable = f.usable || err == nil
	if err != nil && !errors.Is(f.err, syscall.EADDRINUSE) {
		f.err = err
	}
}

// taken returns the error of a family whose addresses another program has all.
func (f *family) taken() error {
	if !f.usable && errors.Is(f.err, syscall.EADDRINUSE) {
		return f.err
	}
	return nil
}
