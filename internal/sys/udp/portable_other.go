// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package udp

import (
	"net/netip"
	"syscall"
)

const portableReusePort = false

func controlPortable(syscall.RawConn, netip.Addr, Options) error { return nil }

// isTooBig cannot tell one refusal of the system from another here.
func isTooBig(error) bool { return false }
