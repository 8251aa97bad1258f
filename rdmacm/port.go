// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"fmt"
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
	IB  PortSpace = cm.PortSpaceIB  // any type of queue pairs: ID.SetQPType
	// IPoIB is for datagrams of interfaces over InfiniBand, and there are none. Such an ID is
	// refused queue pairs, and the address of any interface but the loopback one, as Linux does
	// over Ethernet.
	IPoIB PortSpace = cm.PortSpaceIPoIB
)

type serviceID = cm.ServiceID

// binding is a local port that an identifier holds.
type binding struct {
	service serviceID
	scope   netip.Addr // see scopeOf
	reuse   bool       // overlaps with others of the kind until one listens
	shared  bool       // reserved among processes
}

func (b *binding) String() string {
	ps, _ := b.service.PortSpace()
	return fmt.Sprintf("port %d of %v", b.service.Port(), ps)
}

// scopeOf returns the addresses that a bound address stands for: without zone, unspecified for all
// of its family, the zero Addr for all of both.
func scopeOf(addr netip.Addr, afOnly bool) netip.Addr {
	if addr == netip.IPv6Unspecified() && !afOnly {
		return netip.Addr{}
	}
	return addr.WithZone("").Unmap()
}

// portTable holds the ports of this process.
type portTable struct {
	svc    gsi
	random func() uint64

	mu    sync.Mutex
	bound map[serviceID][]*binding // guarded by mu
}

// Ports that the system chooses from, as in Linux.
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
	ephemeralTries = 64
)

// bind takes a port for b, which has the other fields; port 0 stands for one that is free. A shared
// port is taken from other processes as well, but with reuse not before listen.
func (t *portTable) bind(b binding, ps PortSpace, port uint16) (*binding, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if port != 0 {
		return t.bindLocked(b, ps, port)
	}
	var err error
	for range ephemeralTries {
		p := uint16(firstEphemeral + t.random()%(lastEphemeral-firstEphemeral+1))
		var got *binding
		if got, err = t.bindLocked(b, ps, p); err == nil {
			return got, nil
		}
	}
	return nil, err
}

func (t *portTable) bindLocked(b binding, ps PortSpace, port uint16) (*binding, error) {
	b.service = cm.NewServiceID(ps, port)
	if err := t.freeLocked(&b, b.reuse); err != nil {
		return nil, err
	}
	if b.shared = b.shared && !b.reuse; b.shared {
		if err := t.reserve(&b); err != nil {
			return nil, err
		}
	}
	t.bound[b.service] = append(t.bound[b.service], &b)
	return &b, nil
}

// freeLocked refuses a binding that overlaps with another one.
func (t *portTable) freeLocked(b *binding, reuse bool) error {
	for _, o := range t.bound[b.service] {
		if o != b && !(reuse && o.reuse) && overlap(o.scope, b.scope) {
			return fail(syscall.EADDRINUSE, "address", "%v is bound in this process", b)
		}
	}
	return nil
}

// reserve takes a port from other processes.
func (t *portTable) reserve(b *binding) error {
	err := t.svc.ListenService(uint64(b.service), b.scope)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fail(syscall.EADDRINUSE, "address", "%v is taken by another process", b)
	}
	return err
}

// listen takes a port for good, whether it was bound with reuse or not.
func (t *portTable) listen(b *binding) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.freeLocked(b, false); err != nil || b.shared {
		return err
	}
	err := t.reserve(b)
	b.shared = err == nil
	return err
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
	if b.shared {
		t.svc.UnlistenService(uint64(b.service), b.scope)
	}
}

// overlap reports whether two scopes share an address.
func overlap(a, b netip.Addr) bool {
	covers := func(a, b netip.Addr) bool {
		return a == b || !a.IsValid() || b.IsValid() && a.IsUnspecified() && a.Is4() == b.Is4()
	}
	return covers(a, b) || covers(b, a)
}
