// SPDX-License-Identifier: BSD-2-Clause

// Package numa places memory and threads on a node of a machine with several:
// processors and the memory that is near to them.
package numa

import "syscall"

// ErrNode is a node that the machine does not have, or on none of whose
// processors this process may run: EINVAL.
var ErrNode error = noNode{}

type noNode struct{}

func (noNode) Error() string { return "numa: no such node" }

func (noNode) Unwrap() error { return syscall.EINVAL }
