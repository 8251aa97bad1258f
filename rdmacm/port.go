package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"verbena/internal/wire/cm"
)

// PortSpace is a space of port numbers: rdma_port_space.
type PortSpace = cm.PortSpace

// Port spaces.
const (
	TCP PortSpace = cm.PortSpaceTCP // reliable connections: RC
	UDP PortSpace = cm.PortSpaceUDP // datagrams: UD, found by SIDR
	IB  PortSpace = cm.PortSpaceIB  // any connection: RC or UC; the peer gets no IP addresses but the path's
)

type serviceID = cm.ServiceID

// binding is a local port that an identifier holds.
type binding struct {
	service serviceID
	addr    netip.Addr // without zone; unspecified for all
	shared  bool       // reserved among processes
}

// portTable holds the ports of this process.
type portTable struct {
	svc    gsi
	random func() uint64

	mu    sync.Mutex
	bound map[serviceID][]*binding // guarded by mu
}

// Ports that the system chooses from, as Linux does.
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
	ephemeralTries = 64
)

// bind takes a port of an address; port 0 stands for one that is free. With
// shared it is taken from other processes as well.
func (t *portTable) bind(ps PortSpace, addr netip.Addr, port uint16, shared bool) (*binding, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if port != 0 {
		return t.bindLocked(ps, addr, port, shared)
	}
	var err error
	for range ephemeralTries {
		p := uint16(firstEphemeral + t.random()%(lastEphemeral-firstEphemeral+1))
		var b *binding
		if b, err = t.bindLocked(ps, addr, p, shared); err == nil {
			return b, nil
		}
	}
	return nil, err
}

func (t *portTable) bindLocked(ps PortSpace, addr netip.Addr, port uint16, shared bool) (*binding, error) {
	b := &binding{service: cm.NewServiceID(ps, port), addr: addr.WithZone("").Unmap(), shared: shared}
	reserved := false
	for _, o := range t.bound[b.service] {
		if overlap(o.addr, b.addr) {
			return nil, fail(syscall.EADDRINUSE, "address", "%v port %d of %v is bound in this process", o.addr, port, ps)
		}
		reserved = reserved || o.shared
	}
	if shared && !reserved {
		if err := t.svc.ListenService(uint64(b.service)); err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fail(syscall.EADDRINUSE, "address", "port %d of %v is taken by another process", port, ps)
			}
			return nil, err
		}
	}
	t.bound[b.service] = append(t.bound[b.service], b)
	return b, nil
}

// release gives a port back.
func (t *portTable) release(b *binding) {
	if b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := slices.DeleteFunc(t.bound[b.service], func(o *binding) bool { return o == b })
	t.bound[b.service] = rest
	if len(rest) == 0 {
		delete(t.bound, b.service)
	}
	if b.shared && !slices.ContainsFunc(rest, func(o *binding) bool { return o.shared }) {
		t.svc.UnlistenService(uint64(b.service))
	}
}

// overlap reports whether two bound addresses share one: any address of IPv6
// stands for both families.
func overlap(a, b netip.Addr) bool {
	covers := func(a, b netip.Addr) bool {
		return a == b || a == netip.IPv6Unspecified() || a == netip.IPv4Unspecified() && b.Is4()
	}
	return covers(a, b) || covers(b, a)
}
