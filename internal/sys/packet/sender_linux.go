// SPDX-License-Identifier: BSD-2-Clause

package packet

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// mark is that of frames which a Sender sends.
const mark = 0x56657262

// Sender sends frames by an interface. Its methods may be called concurrently.
type Sender struct {
	// immutable after OpenSender
	fd    int
	name  string
	index int // of the interface
}

// OpenSender opens a socket for an interface.
//
// Errors: EPERM without CAP_NET_RAW; ErrNoFrames; ENODEV.
func OpenSender(name string) (*Sender, error) {
	fd, err := open(name, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, err
	}
	// Before Linux 5.17 a mark needs CAP_NET_ADMIN. Without it Receivers of this interface do not
	// get the frames.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark)
	s := &Sender{fd: fd, name: name}
	s.index, err = indexOf(fd, name)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Stale reports whether the interface has gone, or its name is another one's now.
func (s *Sender) Stale() bool {
	index, err := indexOf(s.fd, s.name)
	return err != nil || index != s.index
}

// open returns a packet socket of an interface for frames of a protocol of linux/if_ether.h.
func open(name string, protocol uint16) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("packet socket", err)
	}
	index, err := ask(fd, name)
	if err == nil && protocol == unix.ETH_P_ALL {
		err = prepare(fd, index.loopback)
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{
			Protocol: protocol<<8 | protocol>>8, Ifindex: index.number}))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	fdtrack.Add(fd)
	return fd, nil
}

// netif is an interface.
type netif struct {
	number   int
	loopback bool
}

// ask asks for an interface of Ethernet, or loopback, whose frames look alike.
func ask(fd int, name string) (n netif, err error) {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return n, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFHWADDR, r); err != nil {
		return n, os.NewSyscallError("ioctl SIOCGIFHWADDR", err)
	}
	switch r.Uint16() {
	case unix.ARPHRD_ETHER:
	case unix.ARPHRD_LOOPBACK:
		n.loopback = true
	default:
		return n, fmt.Errorf("%s: %w", name, ErrNoFrames)
	}
	n.number, err = indexOf(fd, name)
	return n, err
}

// indexOf returns the number of an interface.
func indexOf(fd int, name string) (int, error) {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return 0, os.NewSyscallError("ioctl SIOCGIFINDEX", err)
	}
	return int(r.Uint32()), nil
}

// Longest returns the length of the longest frame that the interface takes now.
func (s *Sender) Longest() (int, error) {
	r, err := unix.NewIfreq(s.name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(s.fd, unix.SIOCGIFMTU, r); err != nil {
		return 0, os.NewSyscallError("ioctl SIOCGIFMTU", err)
	}
	return int(min(r.Uint32()+headerBytes+tagBytes, MaxBytes)), nil
}

// Send sends a frame. It does not block: full is set if the socket takes no frame now. With
// an error the frame is lost.
func (s *Sender) Send(frame []byte) (full bool, err error) {
	if fdtrack.Lost() {
		return false, os.NewSyscallError("send", unix.EBADF)
	}
	for range maxRetriesEINTR {
		err = unix.Send(s.fd, frame, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			break
		}
	}
	switch err {
	case nil:
		return false, nil
	case unix.EAGAIN, unix.EINTR:
		return true, nil
	}
	// ENOBUFS among them: the interface's queue, or that of a virtual interface's peer, has
	// dropped the frame.
	return false, os.NewSyscallError("send", err)
}

// maxRetriesEINTR bounds how often signals may interrupt a call.
const maxRetriesEINTR = 8

// Close closes the socket.
func (s *Sender) Close() error { return fdtrack.Close(s.fd) }
