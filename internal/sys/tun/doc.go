// SPDX-License-Identifier: BSD-2-Clause

// Package tun makes TAP interfaces: what the kernel sends on one is read as
// Ethernet frames, and frames that are written to it the kernel receives.
package tun

import "errors"

// ErrNotPermitted is returned to a process that may not make interfaces.
var ErrNotPermitted = errors.New("needs CAP_NET_ADMIN: run as root, or in namespaces of your own " +
	"(unshare --user --map-root-user --net), or have root make the interface for you (ip tuntap " +
	"add NAME mode tap user USER)")
