// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/sockaddr"
)

const haveRaw = true

// raw is a socket on its descriptor.
type raw struct {
	// immutable after construction
	desc  int
	local netip.AddrPort
	v6    bool
	wild  bool   // bound to a wildcard: messages say their destination
	scope uint32 // interface of a link-local address
	tos   uint8  // that the kernel gives datagrams by itself
	count *counters

	noSegment atomic.Bool // the kernel does not cut bursts
	erred     atomic.Bool // something may be in the socket's error queue
}

func (s *Socket) listenRaw(ap netip.AddrPort, o Options) error {
	family, sa := sockaddr.Of(ap)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.IPPROTO_UDP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := configure(fd, ap.Addr(), o); err != nil {
		unix.Close(fd)
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		unix.Close(fd)
		return os.NewSyscallError("bind", err)
	}
	if ap.Addr().IsMulticast() {
		if err := joinGroup(fd, ap.Addr(), o.Interface); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if err := s.adopt(fd); err != nil {
		unix.Close(fd)
		return err
	}
	r := s.io.(*raw)
	r.tos = o.TOS
	r.noSegment.Store(o.NoSegment || !knowsSegment(fd))
	return nil
}

// Adopt makes a Socket of a descriptor that was opened by Listen, in this
// process or in one that handed it over. The Socket owns fd from then on, also
// after an error.
func Adopt(fd int) (*Socket, error) {
	s := &Socket{}
	if err := s.adopt(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("udp: adopt descriptor %d: %w", fd, err)
	}
	s.io.(*raw).noSegment.Store(!knowsSegment(fd))
	return s, nil
}

func (s *Socket) adopt(fd int) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	r := &raw{desc: fd, count: &s.count}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		r.local = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		r.local = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
		r.v6, r.scope = true, sa.ZoneId
	default:
		return errors.New("not an IP socket")
	}
	r.wild = r.local.Addr().IsUnspecified()
	s.local, s.io = r.local, r
	fdtrack.Add(fd)
	return nil
}

// configure sets the options that every socket needs; it does without those an older kernel does
// not know.
func configure(fd int, addr netip.Addr, o Options) (err error) {
	must := func(name string, level, opt, val int) {
		if e := unix.SetsockoptInt(fd, level, opt, val); e != nil {
			err = errors.Join(err, fmt.Errorf("setsockopt %s: %w", name, e))
		}
	}
	if addr.Is6() {
		must("IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		must("IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, defaultTTL)
		must("IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		must("IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
		// RoCE peers send UDP checksum 0: the ICRC protects. We send one, because the kernel
		// cuts no bursts without.
		must("UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1)
		if addr.IsUnspecified() {
			must("IPV6_RECVPKTINFO", unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
		if o.Interface != 0 && !addr.IsMulticast() {
			must("IPV6_MULTICAST_IF", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, o.Interface)
		}
	} else {
		must("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, defaultTTL)
		must("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		must("IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		if addr.IsUnspecified() {
			must("IP_PKTINFO", unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	}
	if o.Errors {
		err = errors.Join(err, os.NewSyscallError("setsockopt RECVERR", hearErrors(fd, addr.Is6())))
	}
	if o.ReusePort {
		must("SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if addr.IsMulticast() { // every process that wants the group binds it
		must("SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	switch {
	case o.TOS == 0:
	case addr.Is6():
		must("IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(o.TOS))
	default:
		must("IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, int(o.TOS))
	}
	if o.SendOnly {
		err = errors.Join(err, dropInput(fd))
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	} else {
		growBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, o.BufferBytes)
		if !o.NoJoin {
			unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
		}
	}
	growBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, o.BufferBytes)
	return err
}

// growBuffer sets a buffer size, past the system's limit where we may.
func growBuffer(fd, force, plain, bytes int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, bytes) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bytes)
	}
}

// dropInput makes the kernel drop arriving datagrams, before they are queued.
func dropInput(fd int) error {
	return setFilter(fd, unix.SO_ATTACH_FILTER, []bpf.Instruction{bpf.RetConstant{Val: 0}})
}

// AttachFilter has the kernel drop packets that arrive at another socket: a classic BPF program
// returns the number of bytes to keep.
func AttachFilter(fd int, prog []bpf.Instruction) error {
	return setFilter(fd, unix.SO_ATTACH_FILTER, prog)
}

func setFilter(fd, opt int, prog []bpf.Instruction) error {
	code, err := bpf.Assemble(prog)
	if err != nil {
		return err
	}
	f := make([]unix.SockFilter, len(code))
	for i, c := range code {
		f[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, opt,
		&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
	return os.NewSyscallError("setsockopt filter", err)
}

// Steer gives the sockets that share this one's address and port by ReusePort a
// classic BPF program: run on a datagram's UDP payload, it returns the index of
// the socket the datagram is for, in the order in which they were bound.
func (s *Socket) Steer(prog []bpf.Instruction) error {
	r, ok := s.io.(*raw)
	if !ok {
		return errors.ErrUnsupported
	}
	return setFilter(r.desc, unix.SO_ATTACH_REUSEPORT_CBPF, prog)
}

// Filter has the kernel drop datagrams before they are queued: a classic BPF program, run
// on a datagram from its UDP header on, returns the number of bytes to keep; 0 drops
// it. nil ends that. All processes that have the socket have the same filter.
func (s *Socket) Filter(prog []bpf.Instruction) error {
	r, ok := s.io.(*raw)
	if !ok {
		return errors.ErrUnsupported
	}
	if prog != nil {
		return setFilter(r.desc, unix.SO_ATTACH_FILTER, prog)
	}
	err := unix.SetsockoptInt(r.desc, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if err == unix.ENOENT { // there was none
		err = nil
	}
	return os.NewSyscallError("setsockopt filter", err)
}

// SetReceiveBuffer changes SO_RCVBUF; 0 stands for the default of Options. The
// system may grant less, and never less than its own minimum.
func (s *Socket) SetReceiveBuffer(bytes int) error {
	r, ok := s.io.(*raw)
	if !ok {
		return errors.ErrUnsupported
	}
	if bytes == 0 {
		bytes = bufferBytes
	}
	growBuffer(r.desc, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, bytes)
	return nil
}

// minTrueSize is less than Linux counts for any packet in a receive buffer: its sk_buff and
// skb_shared_info take more.
const minTrueSize = 512

// MaxQueued returns a bound of the messages that the receive buffer can hold.
func (s *Socket) MaxQueued() int {
	bytes, err := unix.GetsockoptInt(s.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		bytes = 2 * bufferBytes // Linux doubles what is asked for
	}
	return bytes / minTrueSize
}

func knowsSegment(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// joinGroup makes a socket receive packets to a group on one interface. It does not receive those
// that other sockets of the machine have joined the group for on others.
func joinGroup(fd int, group netip.Addr, ifindex int) error {
	if group.Is6() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL,
			0); err != nil {
			return os.NewSyscallError("setsockopt IPV6_MULTICAST_ALL", err)
		}
		return os.NewSyscallError("setsockopt IPV6_JOIN_GROUP",
			unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
				&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)}))
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0); err != nil {
		return os.NewSyscallError("setsockopt IP_MULTICAST_ALL", err)
	}
	return os.NewSyscallError("setsockopt IP_ADD_MEMBERSHIP",
		unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)}))
}

func (r *raw) fd() int { return r.desc }
func (r *raw) close() error {
	return fdtrack.Close(r.desc)
}

func (r *raw) segments() bool { return !r.noSegment.Load() }

func (r *raw) waitWritable(d monotime.Duration) error {
	ms := int((d + monotime.Millisecond - 1) / monotime.Millisecond)
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(r.desc), Events: unix.POLLOUT}}, ms)
	if err == unix.EINTR {
		return nil
	}
	return os.NewSyscallError("poll", err)
}
