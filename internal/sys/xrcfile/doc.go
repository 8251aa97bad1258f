// SPDX-License-Identifier: BSD-2-Clause

// Package xrcfile has the processes of a user that open an XRC domain by one file find each other,
// and send each other messages. It does not know what the messages mean.
//
//	ring512-4026531840-17.x0123456789abcdef     the socket of the process of slot 17, for the
//	                                            domain with that hash of device and inode
//	xrc.lock                                    held to enter or to leave a domain
//
// The sockets are in the directory where the processes of the user meet. Each end of a Link asks
// the kernel which user is at the other. A domain exists while a process listens for it. The
// socket of a process that was killed refuses connections, and the next process that enters any
// domain removes it. A process holds the file open, so that its inode does not become another
// file's.
//
// A Place has one goroutine, which waits for messages. It uses plain descriptors and not package
// net, because C programs may close all descriptors.
package xrcfile
