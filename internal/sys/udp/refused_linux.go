// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/sockaddr"
)

// hearErrors makes the system keep ICMP's errors for sent datagrams.
func hearErrors(fd int, v6 bool) error {
	if v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
}

// sockExtendedErr is the size of struct sock_extended_err, which begins with the
// errno (32) and the origin (8). Source: ip(7), IP_RECVERR.
const sockExtendedErr = 16

// refused takes errors off the socket's queue, up to one that says that nobody has
// the port. Each is announced by a call that fails with it.
func (r *raw) refused() (dst netip.AddrPort, ok bool) {
	if !r.erred.Load() || !r.erred.Swap(false) { // the load is the cheap one, of every empty poll
		return netip.AddrPort{}, false
	}
	var oob [256]byte
	for {
		_, n, _, from, err := unix.Recvmsg(r.desc, nil, oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil { // EAGAIN: none is left
			return netip.AddrPort{}, false
		}
		if from == nil || !tellsRefused(oob[:n]) {
			continue
		}
		if ap, ok := sockaddr.AddrPort(from); ok {
			r.erred.Store(true) // there may be more
			return ap, true
		}
	}
}

func tellsRefused(oob []byte) bool {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return false
	}
	for _, m := range list {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if (v4 || v6) && len(m.Data) >= sockExtendedErr {
			errno, origin := binary.NativeEndian.Uint32(m.Data), m.Data[4]
			return unix.Errno(errno) == unix.ECONNREFUSED && (origin == unix.SO_EE_ORIGIN_ICMP ||
				origin == unix.SO_EE_ORIGIN_ICMP6)
		}
	}
	return false
}
