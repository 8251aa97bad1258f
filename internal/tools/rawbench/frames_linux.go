// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
)

// Frames are an interface's frames by AF_XDP, past its IP stack.
type Frames struct {
	s    *xdpSocket
	prog portshare.Steering
	head [frameHeader]byte
}

const (
	// frameHeader is the length of the headers of Ethernet, IPv4 and UDP.
	frameHeader = 14 + 20 + 8
	// frameSlot is the offset of the number in which the XDP program finds a slot, as RoCE has it.
	frameSlot = frameHeader + 4
	// frameCount is the offset of a message's count.
	frameCount = frameHeader + 8
	minFrame   = 16 // of payload
)

// FramesPossible returns why this machine, or this process, cannot have Frames: a kernel without
// AF_XDP, or a root user of a container, who may load no program.
func FramesPossible() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("AF_XDP: %w", err)
	}
	unix.Close(fd)
	return features.HaveProgramType(ebpf.XDP)
}

// OpenFrames opens the interface that has the address local. Frames are for remote, at the
// hardware address mac.
func OpenFrames(local, remote netip.Addr, mac net.HardwareAddr) (*Frames, error) {
	iface, err := interfaceOf(local)
	if err != nil {
		return nil, err
	}
	f := &Frames{}
	if f.s, err = openXDP(iface.Index); err != nil {
		return nil, err
	}
	if f.prog, err = xdp.Attach(iface, 1); err != nil {
		return nil, err
	}
	if err := errors.Join(f.prog.Add(local), f.prog.Give(0, []int{f.s.fd})); err != nil {
		f.prog.Close()
		return nil, err
	}
	h := f.head[:]
	copy(h, mac)
	copy(h[6:], iface.HardwareAddr)
	h[12], h[13] = 8, 0
	ip := h[14:]
	ip[0], ip[6], ip[8], ip[9] = 0x45, 0x40, 64, unix.IPPROTO_UDP
	from, to := local.As4(), remote.As4()
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	binary.BigEndian.PutUint16(ip[20:], portshare.Port)
	binary.BigEndian.PutUint16(ip[22:], portshare.Port)
	return f, nil
}

// Close takes the program from the interface.
func (f *Frames) Close() { f.prog.Close() }

func interfaceOf(local netip.Addr) (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(local.AsSlice()) {
				return &i, nil
			}
		}
	}
	return nil, fmt.Errorf("rawbench: no interface has the address %v", local)
}

// put adds a message of a payload's length to the frames to send. Its number names no process but
// slot 0.
func (f *Frames) put(payload int, count uint32) error {
	s := f.s
	if len(s.free) == 0 {
		for s.complete.waiting() > 0 {
			s.free = append(s.free, s.complete.take())
		}
		s.complete.release()
		if len(s.free) == 0 {
			return errors.New("rawbench: the kernel keeps all frames")
		}
	}
	addr := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	n := frameHeader + payload
	b := s.frames[addr : addr+uint64(n)]
	copy(b, f.head[:])
	clear(b[frameHeader:])
	binary.BigEndian.PutUint16(b[16:], uint16(n-14))
	binary.BigEndian.PutUint16(b[38:], uint16(n-34))
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[24:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint32(b[frameSlot:], slotNumber)
	binary.BigEndian.PutUint32(b[frameCount:], count)
	s.tx.put(unix.XDPDesc{Addr: addr, Len: uint32(n)})
	return nil
}

// slotNumber is a number of slot 0 that is no one of the keeper's.
const slotNumber = 2

// last is the count of the message that ends a server.
const last = ^uint32(0)

// take waits for messages, and returns how many there were and the last one's count.
func (f *Frames) take() (n int, count uint32, err error) {
	s := f.s
	for empty, quiet := 1, monotime.Time(0); s.rx.waiting() == 0; empty++ {
		if empty%yieldPolls != 0 {
			continue
		}
		runtime.Gosched()
		if empty%clockPolls != 0 {
			continue
		}
		if now := monotime.Now(); quiet == 0 {
			quiet = now
		} else if now.Sub(quiet) > idleAfter {
			return 0, 0, errors.New("rawbench: the peer fell silent")
		}
	}
	n = s.rx.waiting()
	for range n {
		d := s.rx.take()
		if d.Len < frameHeader+minFrame {
			return 0, 0, fmt.Errorf("rawbench: a frame of %d bytes", d.Len)
		}
		count = binary.BigEndian.Uint32(s.frames[d.Addr+frameCount:])
		s.fill.put(d.Addr &^ (frameBytes - 1))
	}
	s.rx.release()
	s.fill.publish()
	return n, count, nil
}
