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

// tell prints a line to stderr that users need unasked, because an errno carries no text. It does
// not use package os, which ends a process that writes to a broken pipe as stderr.
func tell(words string) {
	line := "verbena: " + strings.Join(strings.Fields(words), " ") + "\n"
	_, _ = syscall.Write(2, []byte(line)) // stderr may be closed
}

// tellObstacle prints, once per process, an error that keeps every program from working.
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

// isObstacle reports whether an error would stop every program, in the present state of the system.
func isObstacle(err error) bool {
	var join *portshare.JoinError
	var port *portshare.PortError
	return errors.As(err, &misconfigured{}) || errors.As(err, &join) || isLimit(err) ||
		errors.As(err, &port) && !errors.Is(err, syscall.EADDRNOTAVAIL)
}

// isLimit reports whether the process or the system has no descriptors left.
func isLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// tellRuntimeDir prints, once per process, that XDG_RUNTIME_DIR is not used.
var tellRuntimeDir = sync.OnceFunc(func() {
	if _, err := rundir.Dir(); err != nil {
		tell(err.Error())
	}
})
