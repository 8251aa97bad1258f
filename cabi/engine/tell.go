// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/rundir"
	"verbena/internal/sys/sandbox"
)

// tell writes a line to stderr that the user is to see without asking for it: C has
// no way to pass words on. It is not package os's, which ends a process whose stderr
// is a pipe that nobody reads.
func tell(words string) {
	_, _ = syscall.Write(2, []byte("verbena: "+strings.Join(strings.Fields(words), " ")+"\n")) // it may be closed
}

// tellObstacle says, once a process, what keeps every program from working.
func tellObstacle(call string, err error) {
	if isObstacle(err) && !told.Swap(true) {
		words := call + ": " + sandbox.Explain(err).Error()
		if isLimit(err) && !strings.Contains(words, "ulimit") {
			words += "; raise the limit of open files (ulimit -n)"
		}
		tell(words)
	}
}

var told atomic.Bool

// isObstacle reports whether no program could do what failed, in this state of the
// system.
func isObstacle(err error) bool {
	var join *portshare.JoinError
	var port *portshare.PortError
	return errors.As(err, &misconfigured{}) || errors.As(err, &join) || errors.As(err, &port) && !errors.Is(err, syscall.EADDRNOTAVAIL) || isLimit(err)
}

// isLimit reports whether there are no descriptors left, of the process or the system.
func isLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// tellRuntimeDir says, once a process, that XDG_RUNTIME_DIR is not used.
var tellRuntimeDir = sync.OnceFunc(func() {
	if _, err := rundir.Dir(); err != nil {
		tell(err.Error())
	}
})
