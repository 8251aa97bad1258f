// SPDX-License-Identifier: BSD-2-Clause

package tcp

import (
	"math"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// Dial begins a connection. local may lack the address, the port or both, which
// the system chooses then. The descriptor becomes writable when Finish has
// something to say.
//
// Errors: EADDRNOTAVAIL, EADDRINUSE, ENETUNREACH and such that the system knows
// at once.
func Dial(local, remote netip.AddrPort) (*Conn, error) {
	fd, err := open(remote.Addr())
	if err != nil {
		return nil, err
	}
	if local.IsValid() && (local.Port() != 0 || !local.Addr().IsUnspecified()) {
		if local.Port() == 0 {
			// The port is chosen when the peer is known. Where the kernel cannot,
			// it is chosen now.
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		}
		if err := unix.Bind(fd, address(local)); err != nil {
			unix.Close(fd)
			return nil, os.NewSyscallError("bind", err)
		}
	}
	if err := unix.Connect(fd, address(remote)); err != nil && err != unix.EINPROGRESS &&
		err != unix.EINTR {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	return adopt(fd, remote)
}

// open returns a socket for connections with an address.
func open(addr netip.Addr) (int, error) {
	family := unix.AF_INET
	if addr.Unmap().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = configure(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// The system probes an idle peer as often as TRP does: a host that has vanished sends
// nothing, and a connection that only receives would wait for ever. The system answers for
// a process that is merely stopped.
const (
	idleSeconds  = 30
	probeSeconds = 3
	probes       = 10
)

func configure(fd int) error {
	for _, o := range []struct{ level, option, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idleSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, probeSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, probes},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes a Conn of a descriptor, which it owns, also after an error.
func adopt(fd int, remote netip.AddrPort) (*Conn, error) {
	c := &Conn{desc: fd, remote: remote}
	if err := c.findLocal(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	fdtrack.Add(fd)
	return c, nil
}

func (c *Conn) findLocal() error {
	sa, err := unix.Getsockname(c.desc)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	a, err := addrPort(sa)
	c.local.Store(&a)
	return err
}

// Finish reports, once the descriptor is writable, whether the connection of Dial is up.
//
// Errors: ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH and such.
func (c *Conn) Finish() error {
	errno, err := unix.GetsockoptInt(c.desc, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = syscall.Errno(errno)
	}
	if err != nil {
		return os.NewSyscallError("connect", err)
	}
	return c.findLocal()
}

// Listen takes connections at an address. Port 0 has the system choose one.
//
// Errors: EADDRINUSE if any program's listener has the port; EADDRNOTAVAIL.
func Listen(local netip.AddrPort, backlog int) (*Listener, error) {
	fd, err := open(local.Addr())
	if err != nil {
		return nil, err
	}
	l := &Listener{desc: fd, spare: reserve()}
	fdtrack.Add(fd)
	if err := l.bind(local, backlog); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// reserve opens a descriptor of nothing.
func reserve() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	fdtrack.Add(fd)
	return fd
}

// shed resets the next connection, which the process has no descriptor for: it
// would be reported for ever else.
func (l *Listener) shed() {
	if l.spare < 0 {
		return
	}
	fdtrack.Remove(l.spare)
	unix.Close(l.spare)
	if fd, _, err := unix.Accept4(l.desc, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err == nil {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(fd)
	}
	l.spare = reserve()
}

func (l *Listener) bind(local netip.AddrPort, backlog int) error {
	// Connections of a listener before us that linger do not keep the port.
	if err := unix.SetsockoptInt(l.desc, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(l.desc, address(local)); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(l.desc, backlog); err != nil {
		return os.NewSyscallError("listen", err)
	}
	sa, err := unix.Getsockname(l.desc)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	l.local, err = addrPort(sa)
	return err
}

// Accept returns the next connection, nil if there is none now. One that has
// failed meanwhile is passed over. It is for one goroutine at a time.
//
// Errors: EMFILE, ENFILE: there is no descriptor for it, and it is reset.
func (l *Listener) Accept() (*Conn, error) {
	for {
		fd, sa, err := unix.Accept4(l.desc, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil, nil
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO, unix.ENETDOWN, unix.EHOSTUNREACH,
			unix.ENETUNREACH:
			// accept(2)
			continue
		case unix.EMFILE, unix.ENFILE:
			l.shed()
			return nil, os.NewSyscallError("accept4", err)
		default:
			return nil, os.NewSyscallError("accept4", err)
		}
		if l.spare < 0 {
			l.spare = reserve()
		}
		remote, err := addrPort(sa)
		if err == nil {
			err = configure(fd)
		}
		if err != nil {
			unix.Close(fd)
			continue
		}
		if c, err := adopt(fd, remote); err == nil {
			return c, nil
		}
	}
}

// Close stops listening. Connections that were not accepted are reset.
func (l *Listener) Close() error {
	if l.spare >= 0 {
		fdtrack.Close(l.spare)
	}
	return fdtrack.Close(l.desc)
}

// MSS returns how many bytes a segment carries now.
func (c *Conn) MSS() (int, error) {
	n, err := unix.GetsockoptInt(c.desc, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	return n, os.NewSyscallError("getsockopt", err)
}

// Path returns the system's measurements of the connection. Lost is not among them: the system
// counts only the segments that it repeats. Marked is 0 before Linux 6.18.
//
// Source: tcp(7), TCP_INFO; include/uapi/linux/tcp.h.
func (c *Conn) Path() (congestion.Path, error) {
	i, err := unix.GetsockoptTCPInfo(c.desc, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return congestion.Path{}, os.NewSyscallError("getsockopt", err)
	}
	p := congestion.Path{
		RTT:         monotime.Duration(i.Rtt) * monotime.Microsecond,
		RTTVar:      monotime.Duration(i.Rttvar) * monotime.Microsecond,
		WindowBytes: int64(i.Snd_cwnd) * int64(i.Snd_mss),
		InFlight:    int64(i.Unacked-min(i.Unacked, i.Sacked+i.Lost)+i.Retrans) * int64(i.Snd_mss),
		Repeated:    uint64(i.Total_retrans),
		Marked:      uint64(i.Received_ce),
		Notified:    uint64(i.Delivered_ce),
	}
	if i.Min_rtt != ^uint32(0) { // none yet
		p.MinRTT = monotime.Duration(i.Min_rtt) * monotime.Microsecond
	}
	if i.Pacing_rate != ^uint64(0) { // not paced
		p.PaceRate = int64(min(i.Pacing_rate, math.MaxInt64))
	}
	return p, nil
}

// CloseWrite ends our side of the stream: FIN behind the data written.
func (c *Conn) CloseWrite() error {
	if fdtrack.Check() {
		return os.NewSyscallError("shutdown", unix.EBADF)
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(c.desc, unix.SHUT_WR))
}

// Close frees the descriptor. Written data is still sent; if there is input that nobody read the
// peer gets a reset.
func (c *Conn) Close() error {
	return fdtrack.Close(c.desc)
}

// Abort frees the descriptor and resets the connection: unsent data is lost.
func (c *Conn) Abort() error {
	if fdtrack.Check() {
		return os.NewSyscallError("close", unix.EBADF)
	}
	_ = unix.SetsockoptLinger(c.desc, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	return c.Close()
}
