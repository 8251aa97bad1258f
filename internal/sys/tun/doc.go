// SPDX-License-Identifier: BSD-2-Clause

// Package tun makes TAP interfaces. The kernel's packets are read as Ethernet frames, and the
// kernel receives frames that are written.
package tun

import "errors"

// ErrNotPermitted is returned to a process that may not make interfaces.
var ErrNotPermitted = errors.New("needs CAP_NET_ADMIN: run as root, or in namespaces of your own " +
	"(unshare --user --map-root-user --net), or have root make the interface for you (ip tuntap " +
	"add NAME mode tap user USER)")
