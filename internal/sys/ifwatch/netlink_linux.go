// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// gather bounds the wait for more messages before the listener reports a change:
// one command of an administrator causes several, such as those for the addresses
// that go when a link is taken down.
const gather = 10 * time.Millisecond

// dumpTries bounds how often a dump is begun anew that the kernel says was
// interrupted by a change.
const dumpTries = 8

// receiveBytes holds any one message, see netlink(7).
const receiveBytes = 64 << 10

// listener reads the kernel's messages on a goroutine of its own. Its socket is
// a plain descriptor: package os would start the Go runtime's poller, which an
// application that closes all descriptors would close, and the runtime ends the
// process then.
type listener struct {
	// immutable after listen
	socket int
	is     unix.Stat_t // of the socket
	stop   int         // an eventfd
	tell   func(*listener, []Change)
	done   chan struct{} // closed when the goroutine has ended

	picture tracker // the goroutine's
	buf     []byte  // the goroutine's
}

// listen begins to listen in the calling thread's network namespace.
func listen(tell func(*listener, []Change)) (*listener, error) {
	l, err := subscribe(tell)
	if err != nil {
		return nil, err
	}
	// A change made meanwhile waits in the socket. It differs from the picture or does not.
	if l.picture, err = dump(); err != nil {
		l.free()
		return nil, err
	}
	go l.run()
	return l, nil
}

// subscribe returns a listener that has the descriptors.
func subscribe(tell func(*listener, []Change)) (*listener, error) {
	fd, err := netlinkSocket()
	if err != nil {
		return nil, err
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(fd)
	fdtrack.Add(stop)
	l := &listener{socket: fd, stop: stop, tell: tell, done: make(chan struct{}),
		buf: make([]byte, receiveBytes)}
	return l, unix.Fstat(fd, &l.is)
}

// netlinkSocket returns a socket into which the kernel puts a message with each change of an
// interface or an address.
func netlinkSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_ROUTE)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	var groups uint32
	for _, g := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR} {
		groups |= 1 << (g - 1)
	}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// close ends the goroutine, unless the application has closed the descriptors
// behind our back: nothing can then.
func (l *listener) close() {
	var now unix.Stat_t
	if unix.Fstat(l.socket, &now) != nil || now.Dev != l.is.Dev || now.Ino != l.is.Ino {
		return
	}
	unix.Write(l.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // any number but 0, in either byte order
	<-l.done
	l.free()
}

func (l *listener) free() {
	fdtrack.Close(l.socket)
	fdtrack.Close(l.stop)
}

func (l *listener) run() {
	defer close(l.done)
	for {
		var c changes
		if l.read(0, &c) != nil {
			return
		}
		for deadline := time.Now().Add(gather); len(c) > 0; {
			left := time.Until(deadline)
			if left <= 0 || l.read(left, &c) != nil {
				break // a socket that failed fails again
			}
		}
		if len(c) > 0 {
			l.tell(l, c)
		}
	}
}

// errStopped ends the goroutine.
var errStopped = errors.New("ifwatch: stopped")

// read waits for messages, for ever if patience is 0, and applies them.
func (l *listener) read(patience time.Duration, c *changes) error {
	ready, err := l.wait(patience)
	if !ready {
		return err
	}
	n, from, err := unix.Recvfrom(l.socket, l.buf, unix.MSG_DONTWAIT)
	switch {
	case err == unix.ENOBUFS: // messages were lost
		now, err := dump()
		if err == nil {
			l.picture.replace(now, c)
		}
		return nil // else the picture is old; the next messages are still reported
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return os.NewSyscallError("recvfrom", err)
	}
	if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
		return nil // not the kernel's
	}
	list, err := syscall.ParseNetlinkMessage(l.buf[:n])
	if err != nil {
		return nil
	}
	for _, m := range list {
		if m, ok := parse(&m); ok {
			l.picture.apply(m, c)
		}
	}
	return nil
}

// wait waits for messages, for ever if patience is 0. It reports whether there may be one.
func (l *listener) wait(patience time.Duration) (ready bool, err error) {
	ms := -1
	if patience > 0 {
		ms = int(patience.Milliseconds()) + 1
	}
	fds := []unix.PollFd{{Fd: int32(l.socket), Events: unix.POLLIN},
		{Fd: int32(l.stop), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, ms)
	switch {
	case err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("poll", err)
	case fds[1].Revents != 0 || fds[0].Revents&unix.POLLNVAL != 0 || fdtrack.Check():
		// closed behind our back
		return false, errStopped
	case n == 0:
		return false, os.ErrDeadlineExceeded
	}
	return true, nil
}

// dump asks the kernel for a picture of the interfaces.
func dump() (tracker, error) {
	var err error
	for range dumpTries {
		t := tracker{}
		if err = t.ask(unix.RTM_GETLINK, unix.RTM_NEWLINK); err == nil {
			err = t.ask(unix.RTM_GETADDR, unix.RTM_NEWADDR)
		}
		if !errors.Is(err, errInterrupted) {
			return t, err
		}
	}
	return nil, err
}

var errInterrupted = errors.New("ifwatch: interfaces changed while they were listed")

// ask adds the answers to one request for a dump.
func (t tracker) ask(question int, answer uint16) error {
	b, err := syscall.NetlinkRIB(question, unix.AF_UNSPEC)
	if err != nil {
		return os.NewSyscallError("netlinkrib", err)
	}
	list, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return os.NewSyscallError("netlinkrib", err)
	}
	var none changes
	for _, m := range list {
		if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
			return errInterrupted
		}
		if m.Header.Type != answer {
			continue
		}
		if m, ok := parse(&m); ok {
			t.apply(m, &none)
		}
	}
	return nil
}

// parse reads a message; false of those that do not matter.
func parse(m *syscall.NetlinkMessage) (message, bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return parseAddr(m)
	}
	return message{}, false
}

// parseLink reads
//
//	struct ifinfomsg: family (1) | pad (1) | type (2) | index (4) | flags (4) | change (4)
func parseLink(raw *syscall.NetlinkMessage) (m message, ok bool) {
	b := raw.Data
	if len(b) < unix.SizeofIfInfomsg {
		return m, false
	}
	family, index, flags := b[0], binary.NativeEndian.Uint32(b[4:]),
		binary.NativeEndian.Uint32(b[8:])
	if family != unix.AF_UNSPEC { // a bridge's port: its end is not the interface's
		return m, false
	}
	const works = unix.IFF_UP | unix.IFF_RUNNING
	m = message{kind: linkIs, index: int(int32(index)), running: flags&works == works}
	if raw.Header.Type == unix.RTM_DELLINK {
		m.kind = linkGone
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(raw)
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFLA_IFNAME:
			name, _, _ := bytes.Cut(a.Value, []byte{0})
			m.name = string(name)
		case unix.IFLA_ADDRESS:
			m.mac = string(a.Value)
		}
	}
	return m, err == nil && m.name != ""
}

// parseAddr reads
//
//	struct ifaddrmsg: family (1) | prefix length (1) | flags (1) | scope (1) | index (4)
//
// It takes IFA_LOCAL where it is there: of a point-to-point interface
// IFA_ADDRESS is the peer's.
func parseAddr(raw *syscall.NetlinkMessage) (m message, ok bool) {
	b := raw.Data
	if len(b) < unix.SizeofIfAddrmsg {
		return m, false
	}
	bits, index := int(b[1]), binary.NativeEndian.Uint32(b[4:])
	m = message{kind: addrIs, index: int(index)}
	if raw.Header.Type == unix.RTM_DELADDR {
		m.kind = addrGone
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(raw)
	addr := netip.Addr{}
	for _, typ := range []uint16{unix.IFA_ADDRESS, unix.IFA_LOCAL} {
		if a, found := attribute(attrs, typ); found {
			addr = a
		}
	}
	m.addr = netip.PrefixFrom(addr, bits)
	return m, err == nil && addr.IsValid() && !addr.IsMulticast()
}

func attribute(attrs []syscall.NetlinkRouteAttr, typ uint16) (netip.Addr, bool) {
	for _, a := range attrs {
		if a.Attr.Type == typ {
			return netip.AddrFromSlice(a.Value)
		}
	}
	return netip.Addr{}, false
}
