// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package freeport

import (
	"net"
	"strconv"
)

// Listens reports whether a port is taken. It binds it for a moment to find out.
func Listens(port int) bool { return ListensAt(0, port) }

// ListensAt is Listens. No system but Linux has network namespaces.
func ListensAt(_, port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return true
	}
	l.Close()
	return false
}
