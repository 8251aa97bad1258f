// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package secenv

import "os"

// Get returns the value of a variable: "" where it is not set. The libraries are for
// Linux; elsewhere the process is the user's own program.
func Get(name string) string { return os.Getenv(name) }
