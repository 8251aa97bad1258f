// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"fmt"
	"syscall"

	"verbena/internal/device"
)

func fail(errno syscall.Errno, arg, format string, a ...any) error {
	return &device.Error{Arg: arg, Why: fmt.Sprintf(format, a...), Err: errno}
}

// errnoOf returns the errno that err wraps, or another where there is none.
func errnoOf(err error, otherwise syscall.Errno) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return otherwise
}

func invalid(arg, format string, a ...any) error { return fail(syscall.EINVAL, arg, format, a...) }
