// SPDX-License-Identifier: BSD-2-Clause

// Package freeport looks at the TCP ports of this machine, for programs that start a server and its
// client. It finds a port for them, and reports when the server is ready.
//
//	Free ──► port ──► server binds … listens ──► Listens ──► client
package freeport

import "net"

// Free returns a port that nobody listens on now. Somebody may before its caller does.
func Free() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
