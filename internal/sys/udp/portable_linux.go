// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

const portableReusePort = true

// controlPortable sets the same socket options as the raw path: identification and DF of sent
// datagrams stay the same. Bursts are never joined.
func controlPortable(c syscall.RawConn, addr netip.Addr, o Options) error {
	o.NoJoin = true
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = configure(int(fd), addr, o) }), err)
}

func isTooBig(err error) bool { return errors.Is(err, unix.EMSGSIZE) }
