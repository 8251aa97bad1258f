// SPDX-License-Identifier: BSD-2-Clause

// Package fdtrack knows the descriptors that this process holds for the network:
// sockets, pollers, locks, the keeper's connections. A C program that forks gives
// them to its child, which must close them: a copy of a socket or of a lock would
// outlive the process that owns it.
//
// Code here below that opens a descriptor adds it, and removes it before closing
// it: its number is someone else's afterwards.
//
// It knows also when the application has closed all of them behind our back:
// see Check.
package fdtrack

import (
	"sync"
	"syscall"
)

var (
	mu  sync.Mutex
	all = map[int]struct{}{} // guarded by mu
)

// Add notes a descriptor.
func Add(fd int) {
	mu.Lock()
	arm()
	all[fd] = struct{}{}
	mu.Unlock()
}

// Remove forgets a descriptor that is about to be closed or given away.
func Remove(fd int) {
	mu.Lock()
	delete(all, fd)
	disarm()
	mu.Unlock()
}

// A Conn is a descriptor as package os or net wraps it.
type Conn interface {
	SyscallConn() (syscall.RawConn, error)
}

// AddConn is Add of c's descriptor.
func AddConn(c Conn) { with(c, Add) }

// RemoveConn is Remove of c's descriptor.
func RemoveConn(c Conn) { with(c, Remove) }

func with(c Conn, f func(int)) {
	if rc, err := c.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { f(int(fd)) }) // closed: nothing to note
	}
}

// Each calls f for every descriptor, and for none that Check finds lost. None is opened or closed
// meanwhile, and f must not.
func Each(f func(fd int)) {
	mu.Lock()
	defer mu.Unlock()
	if check() {
		return
	}
	for fd := range all {
		f(fd)
	}
}
