// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

const (
	// wayFor is the time after which a way is asked for again. A queue pair with the usual time-out
	// repeats its packets for 500 ms, so it follows a neighbour that changes its Ethernet address.
	wayFor = 200 * monotime.Millisecond
	// noWayFor is that of an unknown way: a neighbour answers in less.
	noWayFor = 16 * monotime.Millisecond
)

// maxWays bounds the destinations of a Source that are known.
const maxWays = 1024

// attributeKind masks the flags of an attribute (NLA_TYPE_MASK).
const attributeKind = 0x3fff

// usable are the states of a neighbour that the kernel sends to without asking first.
const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE |
	unix.NUD_PERMANENT

// kernelWay is the LookUp in the kernel's tables, in the network namespace of the calling thread.
func kernelWay(iface int, src, dst netip.Addr) (w Way, ok bool) {
	c, err := newConversation()
	if err != nil {
		return w, false
	}
	defer c.close()
	next, mtu, ok := c.route(iface, src, dst)
	if !ok {
		return w, false
	}
	if w, ok = c.link(iface); !ok {
		return w, false
	}
	if mtu != 0 {
		w.MTU = mtu
	}
	w.Neighbour, w.Old, ok = c.neighbour(iface, next)
	return w, ok
}

// conversation is a socket of rtnetlink(7).
type conversation struct {
	fd  int
	buf []byte
}

func newConversation() (*conversation, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	fdtrack.Add(fd)
	return &conversation{fd: fd, buf: make([]byte, 16<<10)}, nil
}

func (c *conversation) close() { fdtrack.Close(c.fd) }

// ask sends a request and returns the body of the kernel's answer.
func (c *conversation) ask(kind uint16, body []byte) ([]byte, error) {
	msg := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	msg = append(msg, body...)
	binary.NativeEndian.PutUint32(msg, uint32(len(msg)))
	binary.NativeEndian.PutUint16(msg[4:], kind)
	binary.NativeEndian.PutUint16(msg[6:], unix.NLM_F_REQUEST)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(c.fd, msg, 0, kernel); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	n, _, err := unix.Recvfrom(c.fd, c.buf, 0)
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	answers, err := syscall.ParseNetlinkMessage(c.buf[:n])
	if err != nil || len(answers) == 0 {
		return nil, errors.New("xsk: the kernel's answer cannot be read")
	}
	if a := answers[0]; a.Header.Type == unix.NLMSG_ERROR && len(a.Data) >= 4 {
		return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(a.Data)))
	}
	return answers[0].Data, nil
}

// attributes calls f for each attribute.
func attributes(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&attributeKind, b[unix.SizeofRtAttr:n])
		b = b[min(roundUp(n, unix.RTA_ALIGNTO), len(b)):]
	}
}

// appendAddress appends an attribute that is an address.
func appendAddress(b []byte, kind uint16, a netip.Addr) []byte {
	v := a.AsSlice()
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(v)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(b, v...)
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// route asks for the next hop from src to dst, and the MTU of the path; 0 is the interface's.
func (c *conversation) route(iface int, src, dst netip.Addr) (next netip.Addr, mtu int, ok bool) {
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1], body[2] = family(dst), byte(dst.BitLen()), byte(src.BitLen())
	body = appendAddress(body, unix.RTA_DST, dst)
	body = appendAddress(body, unix.RTA_SRC, src)
	if dst.IsLinkLocalUnicast() {
		body = binary.NativeEndian.AppendUint16(body, unix.SizeofRtAttr+4)
		body = binary.NativeEndian.AppendUint16(body, unix.RTA_OIF)
		body = binary.NativeEndian.AppendUint32(body, uint32(iface))
	}
	a, err := c.ask(unix.RTM_GETROUTE, body)
	if err != nil || len(a) < unix.SizeofRtMsg || a[7] != unix.RTN_UNICAST {
		return next, 0, false
	}
	next = dst
	attributes(a[unix.SizeofRtMsg:], func(kind uint16, v []byte) {
		switch {
		case kind == unix.RTA_OIF && len(v) == 4:
			ok = int(binary.NativeEndian.Uint32(v)) == iface
		case kind == unix.RTA_GATEWAY:
			if g, valid := netip.AddrFromSlice(v); valid {
				next = g
			}
		case kind == unix.RTA_VIA: // a gateway of the other family
			next = netip.Addr{}
		case kind == unix.RTA_METRICS:
			attributes(v, func(kind uint16, v []byte) {
				if kind == unix.RTAX_MTU && len(v) == 4 {
					mtu = int(binary.NativeEndian.Uint32(v))
				}
			})
		}
	})
	return next, mtu, ok && next.IsValid()
}

// link asks for an interface's own address and MTU, and whether it joins bursts: a virtual pair has
// no queue of packets, unless it was given one, and one way for all unless it has several.
func (c *conversation) link(iface int) (w Way, ok bool) {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(iface))
	a, err := c.ask(unix.RTM_GETLINK, body)
	if err != nil || len(a) < unix.SizeofIfInfomsg {
		return w, false
	}
	var name, kind, queue string
	attributes(a[unix.SizeofIfInfomsg:], func(number uint16, v []byte) {
		switch {
		case number == unix.IFLA_ADDRESS && len(v) == len(w.Own):
			copy(w.Own[:], v)
			ok = true
		case number == unix.IFLA_MTU && len(v) == 4:
			w.MTU = int(binary.NativeEndian.Uint32(v))
		case number == unix.IFLA_IFNAME:
			name = unix.ByteSliceToString(v)
		case number == unix.IFLA_QDISC:
			queue = unix.ByteSliceToString(v)
		case number == unix.IFLA_LINKINFO:
			attributes(v, func(number uint16, v []byte) {
				if number == unix.IFLA_INFO_KIND {
					kind = unix.ByteSliceToString(v)
				}
			})
		}
	})
	w.JoinsBursts = kind == "veth" && queue == "noqueue" && transmitQueues(c.fd, name) == 1
	return w, ok && w.MTU > 0
}

// neighbour asks for the Ethernet address of a next hop. old is true if the kernel is to check it.
func (c *conversation) neighbour(iface int, next netip.Addr) (mac [6]byte, old, ok bool) {
	body := make([]byte, unix.SizeofNdMsg)
	body[0] = family(next)
	binary.NativeEndian.PutUint32(body[4:], uint32(iface))
	body = appendAddress(body, unix.NDA_DST, next)
	a, err := c.ask(unix.RTM_GETNEIGH, body)
	if err != nil || len(a) < unix.SizeofNdMsg {
		return mac, false, false
	}
	state := binary.NativeEndian.Uint16(a[8:])
	if state&usable == 0 {
		return mac, false, false
	}
	attributes(a[unix.SizeofNdMsg:], func(kind uint16, v []byte) {
		if kind == unix.NDA_LLADDR && len(v) == len(mac) {
			copy(mac[:], v)
			ok = true
		}
	})
	return mac, state&unix.NUD_STALE != 0, ok
}
