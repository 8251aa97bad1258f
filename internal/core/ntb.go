// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/mem"
	"verbena/internal/transport/ntb"
)

// ntbLink is our end of a link, which the contexts of its device share. Peers name memory by key
// alone, so that they share a table of keys, too.
type ntbLink struct {
	// immutable
	*ntb.Device
	info device.Info
	keys *mem.Table
	pds  atomic.Uint32

	refs int // guarded by hostMu
}

// The window of a link. It is the system's to provide as much of it as is used.
const (
	ntbWindow = 256 << 20
	ntbMemory = 128 << 20 // of it, for the application
)

// openLink returns the link of a device, opening it for the first context.
func (h *host) openLink(info device.Info) (*ntbLink, error) {
	counters := h.counters(info)
	hostMu.Lock()
	defer hostMu.Unlock()
	if l := h.links[info.Name]; l != nil {
		l.refs++
		return l, nil
	}
	l := &ntbLink{keys: mem.NewTable(randomKey), refs: 1}
	var err error
	l.Device, err = ntb.Open(h.engine,
		ntb.Config{Endpoint: info.Link(), WindowBytes: ntbWindow, MemoryBytes: ntbMemory,
			Keys: l.keys, Counters: counters})
	switch {
	case errors.Is(err, syscall.EBUSY) && !info.Shared():
		return nil, fail(syscall.EBUSY, info.Name,
			"%v: another process has this end of the link", err)
	case err != nil:
		return nil, fail(errnoOf(err, syscall.EIO), info.Name, "%v", err)
	}
	l.info = info.OnSide(l.Side())
	addrs, err := l.info.AddrTable()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.SetAddrs(addrs)
	h.mu.Lock()
	h.links[info.Name] = l
	h.mu.Unlock()
	return l, nil
}

func (l *ntbLink) tables() (*mem.Table, *atomic.Uint32) { return l.keys, &l.pds }

func (l *ntbLink) handle() any { return l.Device }

// close takes the context out of the tables and the window, and closes the link after the last
// context.
func (l *ntbLink) close(c *Context) error {
	domains := map[mem.PD]bool{}
	for n := range c.domains {
		domains[n] = true
	}
	l.keys.Purge(domains)
	c.freeBuffers()
	hostMu.Lock()
	defer hostMu.Unlock()
	if l.refs--; l.refs > 0 {
		return nil
	}
	c.host.mu.Lock()
	delete(c.host.links, l.info.Name)
	c.host.mu.Unlock()
	return l.Close()
}

// peers returns the addresses that queue pairs connect to, as far as they are known: those at the
// other end of the link, and in a shared-memory hub those at ours.
func (l *ntbLink) peers() []netip.Addr {
	list := l.PeerAddrs()
	if a, ok := l.info.PeerPort(); ok && len(list) > 0 && !slices.Contains(list, a) {
		list = append(list, a)
	}
	return list
}

// port sets the state of the port while the link is up.
func (l *ntbLink) port(a *ib.PortAttr) {
	if l.Up() {
		a.State, a.PhysState = ib.PortActive, 5
	}
}

// source returns no address: a link has two ends.
func (l *ntbLink) source([]netip.Addr, uint8) netip.Addr { return netip.Addr{} }

func (l *ntbLink) watch(c *Context) (stop func(), err error) {
	return l.Watch(func(change ntb.LinkChange) { l.changed(c, change) }), nil
}

// changed raises the port's event. The port of a shared-memory hub is active for as long as it is
// open, even if the link to a process is lost.
func (l *ntbLink) changed(c *Context, change ntb.LinkChange) {
	switch {
	case change.Fatal:
		c.events.put(AsyncEvent{Type: ib.EventDeviceFatal})
	case l.Shared():
	case change.Up:
		c.events.put(AsyncEvent{Type: ib.EventPortActive, Port: 1})
	default:
		c.events.put(AsyncEvent{Type: ib.EventPortErr, Port: 1})
	}
}

// NTB returns the link of a device of kind ntb, nil of others.
func (c *Context) NTB() *ntb.Device {
	l, ok := c.back.(*ntbLink)
	if !ok {
		return nil
	}
	return l.Device
}
