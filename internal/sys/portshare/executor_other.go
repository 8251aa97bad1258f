// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package portshare

import (
	"errors"
	"os"
)

// ExecutorPath is of use on Linux only.
var ExecutorPath = os.Executable

// Detach fails: processes do not share a port here, nor leave anything.
func Detach(string) error { return errors.ErrUnsupported }

// Execute fails likewise.
func Execute(string) error { return errors.ErrUnsupported }
