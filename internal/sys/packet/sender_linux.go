// SPDX-License-Identifier: BSD-2-Clause

package packet

import (
	"fmt"
	"net"
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
	index int // of the interface
}

// OpenSender opens a socket for an interface, which has a number: its name may become another's.
//
// Errors: EPERM without CAP_NET_RAW; ErrNoFrames; ENODEV.
func OpenSender(index int) (*Sender, error) {
	fd, err := open(index, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, err
	}
	// Before Linux 5.17 a mark needs CAP_NET_ADMIN. Without it Receivers of this interface do not
	// get the frames.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark)
	return &Sender{fd: fd, index: index}, nil
}

// Stale reports whether the interface has gone: another one may have its number.
func (s *Sender) Stale() bool {
	at, err := bound(s.fd)
	return err != nil || at.Ifindex != s.index
}

// open returns a packet socket of an interface for frames of a protocol of linux/if_ether.h. The
// interface has Ethernet, or it is loopback, whose frames look alike.
func open(index int, protocol uint16) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("packet socket", err)
	}
	if err := bind(fd, index, protocol); err != nil {
		unix.Close(fd)
		return -1, err
	}
	fdtrack.Add(fd)
	return fd, nil
}

// bind binds a socket to an interface, first without a protocol: it shows which it is then, and
// gets no frames before it has its options.
func bind(fd, index int, protocol uint16) error {
	at := &unix.SockaddrLinklayer{Ifindex: index}
	if err := unix.Bind(fd, at); err != nil {
		return os.NewSyscallError("bind", err)
	}
	to, err := bound(fd)
	if err != nil {
		return err
	}
	if to.Hatype != unix.ARPHRD_ETHER && to.Hatype != unix.ARPHRD_LOOPBACK {
		return fmt.Errorf("interface %d: %w", index, ErrNoFrames)
	}
	if protocol == 0 {
		return nil
	}
	if err := prepare(fd, to.Hatype == unix.ARPHRD_LOOPBACK); err != nil {
		return err
	}
	at.Protocol = protocol<<8 | protocol>>8
	return os.NewSyscallError("bind", unix.Bind(fd, at))
}

// bound returns the interface of a socket: its number, -1 when it has gone, and its type.
func bound(fd int) (*unix.SockaddrLinklayer, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	at, ok := sa.(*unix.SockaddrLinklayer)
	if !ok {
		return nil, os.NewSyscallError("getsockname", unix.ENOTSOCK) // not our descriptor any more
	}
	return at, nil
}

// Longest returns the length of the longest frame that the interface takes now.
//
// Errors: ENODEV when it has gone.
func (s *Sender) Longest() (int, error) {
	i, err := net.InterfaceByIndex(s.index)
	if err != nil {
		return 0, fmt.Errorf("%w: %v", unix.ENODEV, err)
	}
	return min(i.MTU+headerBytes+tagBytes, MaxBytes), nil
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
