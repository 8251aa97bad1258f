// SPDX-License-Identifier: BSD-2-Clause

// Package sockaddr turns IP addresses and ports into the system's socket
// addresses and back. The zone of a link-local address is the interface's name or
// its index. It opens nothing.
package sockaddr
