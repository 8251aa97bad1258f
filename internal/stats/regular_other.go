// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package stats

import "os"

// openRegular opens a file of the directory, which must be a regular one.
func openRegular(path string, flags int) (*os.File, error) {
	if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: errRegular}
	}
	return os.OpenFile(path, flags, 0o600)
}
