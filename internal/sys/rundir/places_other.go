// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package rundir

import "os"

// perUser returns none: XDG_RUNTIME_DIR is Linux's.
func perUser(string) []string { return nil }

// temporary returns the directory for temporary files, each user's own on some
// systems.
func temporary() string { return os.TempDir() }
