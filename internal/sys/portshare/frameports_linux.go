// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/sockaddr"
	"verbena/internal/sys/udp"
)

// A transport whose datagrams have no queue pair number has a UDP port of its own for each
// association. The process that has a socket there shows it to the keeper, which has the program
// steer the port to the process's seat. A process cannot have the datagrams of a port that it has
// not bound.

// maxSeatPorts bounds the ports of one process: the table is for all.
const maxSeatPorts = 8192

// seatPort is a port that is steered to a slot. The keeper has the socket too: no other program can
// bind the port before the steering ends.
type seatPort struct {
	slot int
	fd   int
}

var errNotItsPort = errors.New("the socket has not this address and port in this network namespace")

// steerPort does what a kindPort or kindUnport asks for.
func (k *keeper) steerPort(slot int, f frame) error {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	p := k.seated(slot, int(f.Count))
	if p == nil {
		return syscall.ENOENT
	}
	a := netip.AddrPortFrom(f.Src.Addr().Unmap().WithZone(""), f.Src.Port())
	if f.Kind == kindUnport {
		if s, ok := p.ports[a]; ok && s.slot == slot {
			p.removePort(a)
		}
		return nil
	}
	if len(f.fds) != 1 || a.Port() == Port || a.Addr().IsLoopback() || !p.has(a.Addr()) {
		return syscall.EINVAL
	}
	if bound(f.fds[0]) != a || !isLocal(f.fds[0]) || !exclusive(f.fds[0]) {
		return errNotItsPort
	}
	n := 0
	for _, s := range p.ports {
		if s.slot == slot {
			n++
		}
	}
	if _, taken := p.ports[a]; taken {
		return syscall.EADDRINUSE // by a process that has it too, and came first
	} else if n >= maxSeatPorts {
		return syscall.ENOSPC
	}
	fd, err := unix.FcntlInt(uintptr(f.fds[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	fdtrack.Add(fd)
	p.ports[a] = seatPort{slot, fd}
	if err := p.steering.AddPort(a, slot); err != nil {
		p.removePort(a)
		return err
	}
	return nil
}

// seated returns the pool of an interface where a slot has a seat. The interface's name may have
// changed since. The caller holds k.create.
func (k *keeper) seated(slot, index int) *framePool {
	p := k.frames[index]
	if p == nil {
		return nil
	}
	if _, ok := p.places[slot]; !ok {
		return nil
	}
	return p
}

func (p *framePool) removePort(a netip.AddrPort) {
	p.steering.RemovePort(a)
	_ = fdtrack.Close(p.ports[a].fd)
	delete(p.ports, a)
}

// exclusive reports whether no other socket can have datagrams to a socket's address and port.
func exclusive(fd int) bool {
	for _, o := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT, unix.SO_BINDTOIFINDEX} {
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o); err != nil || n != 0 {
			return false
		}
	}
	return true
}

// bound returns the address and port of a UDP socket, without zone.
func bound(fd int) netip.AddrPort {
	if proto, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil ||
		proto != unix.IPPROTO_UDP {
		return netip.AddrPort{}
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	a, ok := sockaddr.AddrPort(sa)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// isLocal reports whether a socket is of the keeper's network namespace.
func isLocal(fd int) bool {
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(own)
	a, err := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	b, other := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err == nil && other == nil && a == b
}

// SteerPort implements Member.
func (m *member) SteerPort(iface int, s *udp.Socket) error {
	fd, err := unix.FcntlInt(uintptr(s.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	defer unix.Close(fd)
	a, err := m.callWith(frame{Kind: kindPort, Count: uint64(iface), Src: s.LocalAddr()}, fd)
	if err == nil && a.Err != "" {
		err = &keeperError{a.Err, a.Errno}
	}
	return err
}

// UnsteerPort implements Member.
func (m *member) UnsteerPort(iface int, a netip.AddrPort) {
	m.call(frame{Kind: kindUnport, Count: uint64(iface), Src: a})
}
