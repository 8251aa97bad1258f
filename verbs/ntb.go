// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/rdma"
	"verbena/internal/sys/numa"
)

// UseLinks names the links of windows that this machine has, with commas between, in
// place of the environment variable VERBENA_NTB: they are the devices ntb0, ntb1
// and so on. Each is one end of
//
//	shm:PATH                    shared memory of any number of processes of one user, which
//	                            meet in a directory PATH, which stays: the first to come is
//	                            one node (s), all others while it lives are the other one (c)
//	shm:s:PATH    shm:c:PATH    … of the one node (s) or the other (c)
//	s:ADDR:PORT   c:ADDR:PORT   TCP, to any host; s:ADDR:PORT@PEER takes none but one from
//	                            the address PEER, or from a network such as 192.0.2.0/24
//	map:0:PATH    map:1:PATH    a file, or the BAR of a PCI device, that both ends map
//	pci:0:DEVICE  pci:1:DEVICE  BAR 2 of the PCI device at an address, as 0000:00:04.0
//
// and may have before it the IP address of its port, or those of both ends, that
// of the one that waits (s, 0, the first to come) first:
//
//	10.99.0.1+10.99.0.2=shm:/run/user/1000/link
//
// A link of TCP may have before these a file that holds what both ends must know: at
// least 16 bytes, of a file that nobody else may read and that has no colon in its name.
// Each end proves that it knows them; what follows is not encrypted.
//
//	secret=/etc/link.key:s:192.0.2.1:7000@192.0.2.2
//
// and before all the NUMA node that the memory of its window and the goroutine that
// works the link are to be on:
//
//	node=1:10.99.0.1=c:192.0.2.1:7000
//
// While a link to one process is down its port is DOWN, and what is posted waits until it
// is up, however long that takes. In a meeting place what is for a process that is not
// there, or does not answer for 5 s, is flushed.
//
// It comes before Devices and Open. Errors: EINVAL if a link cannot be read, is the same
// end as another one, or has a port with another one's address.
func UseLinks(links string) error { return device.ConfigureLinks(links) }

// ntbLink is what the contexts of a device of kind ntb share: our end of its
// link. Peers name memory by key alone, so that there is one table of keys.
type ntbLink struct {
	// immutable
	*engine.NTB
	info DeviceInfo
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
func (h *host) openLink(info DeviceInfo) (*ntbLink, error) {
	account := h.account(info)
	hostMu.Lock()
	defer hostMu.Unlock()
	if l := h.links[info.Name]; l != nil {
		l.refs++
		return l, nil
	}
	l := &ntbLink{keys: mem.NewTable(randomKey), refs: 1}
	var err error
	l.NTB, err = h.engine.OpenNTB(engine.NTBConfig{Endpoint: info.Link(), WindowBytes: ntbWindow, MemoryBytes: ntbMemory, Keys: l.keys, Account: account})
	switch {
	case errors.Is(err, backend.ErrInUse) && info.Shared():
		return nil, fail(syscall.EBUSY, info.Name, "%v", err)
	case errors.Is(err, backend.ErrInUse):
		return nil, fail(syscall.EBUSY, info.Name, "%v: another process has this end of the link", err)
	case errors.Is(err, numa.ErrNode), errors.Is(err, backend.ErrConfig):
		return nil, fail(syscall.EINVAL, info.Name, "%v", err)
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

// closeLink ends openLink.
func (h *host) closeLink(l *ntbLink) error {
	hostMu.Lock()
	defer hostMu.Unlock()
	if l.refs--; l.refs > 0 {
		return nil
	}
	h.mu.Lock()
	delete(h.links, l.info.Name)
	h.mu.Unlock()
	return l.Close()
}

// peers returns the addresses that queue pairs connect to, as far as they are known: at the other
// end of the link, and of a meeting place at ours.
func (l *ntbLink) peers() []netip.Addr {
	list := l.PeerAddrs()
	if a, ok := l.info.PeerPort(); ok && len(list) > 0 && !slices.Contains(list, a) {
		list = append(list, a)
	}
	return list
}

// port fills what the link says of its port.
func (l *ntbLink) port(a *ib.PortAttr) {
	if l.Up() {
		a.State, a.PhysState = ib.PortActive, 5
	}
}

// newNTBConn is newConn of a device of kind ntb.
func (q *QP) newNTBConn() (*engine.Conn, error) { return q.ctx.ntb.NewConn(q.config, q.event) }

// ntbCounterNames are those of the queue pairs of a link.
func ntbCounterNames() []string { return rdma.CounterNames() }
