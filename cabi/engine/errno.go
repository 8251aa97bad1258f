// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errnoOf returns the errno of an error, 0 for none. With VERBENA_DEBUG=1 it prints the error to
// stderr, because an errno carries no text; otherwise it prints only obstacles (tellObstacle).
func errnoOf(call string, err error) int32 {
	if err == nil {
		return 0
	}
	if env().debug {
		fmt.Fprintf(os.Stderr, "verbena: %s: %v\n", call, err)
	} else {
		tellObstacle(call, err)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return int32(errno)
	}
	return int32(syscall.EIO)
}

// noObject returns the error for a handle that names no such object.
func noObject(what string) error { return fmt.Errorf("no such %s: %w", what, syscall.EINVAL) }

// invalid returns the error for an argument that is refused before verbs sees it.
func invalid(format string, a ...any) error {
	return fmt.Errorf(format+": %w", append(a, syscall.EINVAL)...)
}
