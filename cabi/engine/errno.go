// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errnoOf returns what C is told of an error: 0 for none. With VERBENA_DEBUG
// its words go to stderr, as C has no way to pass them on; without it those of an
// obstacle do.
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

// noObject is what a handle that names nothing is refused with.
func noObject(what string) error { return fmt.Errorf("no such %s: %w", what, syscall.EINVAL) }

// invalid is an argument that is refused before verbs sees it.
func invalid(format string, a ...any) error {
	return fmt.Errorf(format+": %w", append(a, syscall.EINVAL)...)
}
