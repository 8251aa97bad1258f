// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package fdtrack

import (
	"io"
	"os"
)

// Create is os.Create.
func Create(path string) (io.WriteCloser, error) { return os.Create(path) }
