// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"net/netip"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/mem"
)

// backing carries the contexts of a device: an interface of the host, or our end of an NTB link. It
// hides the difference from the objects of a context.
type backing interface {
	// tables returns the key table, and the last PD number given out.
	tables() (*mem.Table, *atomic.Uint32)
	// handle returns the Device of engine.QPSpec.
	handle() any
	// port completes the attributes of the port.
	port(*ib.PortAttr)
	// peers returns the addresses that queue pairs connect to; none where any address may be one.
	peers() []netip.Addr
	// source returns the address that a queue pair with this GID index sends from, if any.
	source(gids []netip.Addr, index uint8) netip.Addr
	// watch has the context get the port's events until stop is called.
	watch(c *Context) (stop func(), err error)

	// TakeMemory returns memory that peers reach faster than any other, nil if there is none.
	TakeMemory(n uint64) ([]byte, bool)
	GiveMemory([]byte)
	// Expose lets peers write to a region without our help, and reports whether they may.
	Expose(r *mem.Region, buf []byte) bool
	Withdraw(r *mem.Region)

	// close ends the context's use of the device.
	close(c *Context) error
}

// back returns the backing of a device's contexts, and the device as it then is.
func (h *host) back(info device.Info) (backing, device.Info, error) {
	if !info.Kind.HasLinks() {
		return &netInterface{name: info.NetDev, keys: mem.NewTable(randomKey)}, info, nil
	}
	l, err := h.openLink(info)
	if err != nil {
		return nil, info, err
	}
	return l, l.info, nil
}

// netInterface is a backing without anything of its own: each context has its tables.
type netInterface struct {
	name string
	keys *mem.Table
	pds  atomic.Uint32
}

func (n *netInterface) tables() (*mem.Table, *atomic.Uint32) { return n.keys, &n.pds }

func (*netInterface) handle() any { return nil }

func (*netInterface) port(*ib.PortAttr) {}

func (*netInterface) peers() []netip.Addr { return nil }

func (*netInterface) source(gids []netip.Addr, index uint8) netip.Addr { return gids[index] }

func (*netInterface) TakeMemory(uint64) ([]byte, bool) { return nil, false }

func (*netInterface) GiveMemory([]byte) {}

func (*netInterface) Expose(*mem.Region, []byte) bool { return false }

func (*netInterface) Withdraw(*mem.Region) {}

func (*netInterface) close(*Context) error { return nil }

// portEvents are the asynchronous events of an interface's changes. An interface that is removed is
// no more than down: it may be made anew.
var portEvents = map[engine.InterfaceEvent]ib.EventType{
	engine.InterfaceUp:    ib.EventPortActive,
	engine.InterfaceDown:  ib.EventPortErr,
	engine.InterfaceAddrs: ib.EventGIDChange,
}

func (n *netInterface) watch(c *Context) (stop func(), err error) {
	return engine.WatchInterfaces(func(change engine.InterfaceChange) {
		if e, ok := portEvents[change.Event]; ok && change.NetDev == n.name {
			c.events.put(AsyncEvent{Type: e, Port: 1})
		}
	})
}
