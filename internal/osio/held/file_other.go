//go:build !linux

package held

import (
	"io"
	"os"
)

// Create is os.Create.
func Create(path string) (io.WriteCloser, error) { return os.Create(path) }
