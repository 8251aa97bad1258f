// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package fdtrack

import (
	"io"
	"os"
)

// Create is os.Create.
func Create(path string) (io.WriteCloser, error) { return os.Create(path) }

// CreateNew is Create, and fails if there is something of that name.
func CreateNew(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}
