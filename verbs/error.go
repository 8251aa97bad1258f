package verbs

import (
	"fmt"
	"syscall"

	"verbena/internal/device"
)

// Error is a refused call: which argument, why, and the errno that rdma-core
// returns for it.
type Error = device.Error

func fail(errno syscall.Errno, arg, format string, a ...any) error {
	return &Error{Arg: arg, Why: fmt.Sprintf(format, a...), Err: errno}
}

func invalid(arg, format string, a ...any) error { return fail(syscall.EINVAL, arg, format, a...) }
