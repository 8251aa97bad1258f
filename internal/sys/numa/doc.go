// SPDX-License-Identifier: BSD-2-Clause

// Package numa places memory and threads on a node of a machine with several:
// processors and the memory that is near to them.
package numa

import "errors"

// ErrNode is a node that the machine does not have, or on none of whose
// processors this process may run.
var ErrNode = errors.New("numa: no such node")
