// SPDX-License-Identifier: BSD-2-Clause

package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// A TAP is an interface of ours. Its descriptor is not the Go runtime's.
//
// Linux: Documentation/networking/tuntap.rst.
type TAP struct {
	Name string

	fd   int
	stop int // eventfd: ends Read
}

// Open makes a TAP interface, which goes with Close, or takes one that root made
// for this user, which stays. An empty name, or one with %d in it, has the kernel
// choose. The interface is down and has no carrier.
//
// Errors: ErrNotPermitted; the system's.
func Open(name string) (*TAP, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: a name has at most %d bytes", name, unix.IFNAMSIZ-1)
	}
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: interfaces need the kernel's module tun (modprobe tun); a "+
			"container must be given the device", &os.PathError{Op: "open", Path: device, Err: err})
	}
	t := &TAP{fd: fd, stop: -1}
	fdtrack.Add(fd)
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Close()
		return nil, refused("interface "+name, err)
	}
	t.Name = ifr.Name()
	if t.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		t.Close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(t.stop)
	return t, t.SetCarrier(false)
}

func refused(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = ErrNotPermitted
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Close ends the interface. Nobody may read or write any more.
func (t *TAP) Close() error {
	for _, fd := range []int{t.fd, t.stop} {
		if fd >= 0 {
			fdtrack.Remove(fd)
			unix.Close(fd)
		}
	}
	return nil
}

// Configure takes the interface up, with an address if it is valid.
//
// Errors: ErrNotPermitted; the system's.
func (t *TAP) Configure(address netip.Prefix) error {
	l, err := netlink.LinkByName(t.Name)
	if err != nil {
		return refused("interface "+t.Name, err)
	}
	if address.IsValid() {
		a, err := netlink.ParseAddr(address.String())
		if err == nil {
			err = netlink.AddrAdd(l, a)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return refused(fmt.Sprintf("address %v of %s", address, t.Name), err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return refused("interface "+t.Name, err)
	}
	return nil
}

// SetMTU sets how long packets may be.
func (t *TAP) SetMTU(bytes int) error {
	l, err := netlink.LinkByName(t.Name)
	if err == nil {
		err = netlink.LinkSetMTU(l, bytes)
	}
	if err != nil {
		return refused(fmt.Sprintf("MTU %d of %s", bytes, t.Name), err)
	}
	return nil
}

// SetCarrier sets the interface's carrier: whether there is a peer.
func (t *TAP) SetCarrier(on bool) error {
	n := 0
	if on {
		n = 1
	}
	return os.NewSyscallError("ioctl TUNSETCARRIER",
		unix.IoctlSetPointerInt(t.fd, unix.TUNSETCARRIER, n))
}

// ErrStopped is returned by Read after Stop.
var ErrStopped = errors.New("tun: stopped")

// Read waits for a frame and reads it. A frame longer than b is cut off.
func (t *TAP) Read(b []byte) (int, error) {
	for {
		if n, ok, err := t.TryRead(b); ok || err != nil {
			return n, err
		}
		list := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN},
			{Fd: int32(t.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(list, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		}
		if list[1].Revents != 0 {
			return 0, ErrStopped
		}
	}
}

// TryRead reads a frame if there is one. A frame longer than b is cut off.
func (t *TAP) TryRead(b []byte) (n int, ok bool, err error) {
	for {
		n, err := unix.Read(t.fd, b)
		switch err {
		case nil:
			return n, true, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, false, nil
		default:
			return 0, false, fmt.Errorf("interface %s: %w", t.Name,
				os.NewSyscallError("read", err))
		}
	}
}

// Stop ends Read, now and later. Any thread may call it.
func (t *TAP) Stop() { _, _ = unix.Write(t.stop, binary.NativeEndian.AppendUint64(nil, 1)) }

// Write has the kernel receive a frame. It does not wait.
func (t *TAP) Write(frame []byte) error {
	_, err := unix.Write(t.fd, frame)
	return err
}
