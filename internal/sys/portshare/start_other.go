// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package portshare

import (
	"errors"
	"os"
)

// KeeperPath is of use on Linux only.
var KeeperPath = os.Executable

// Detach fails: processes do not share a port here.
func Detach(string) error { return errors.ErrUnsupported }

// Keep fails likewise.
func Keep(string, MADRules, Attach) error { return errors.ErrUnsupported }
