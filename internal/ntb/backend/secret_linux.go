// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Bounds of a secret. With fewer bytes than these it could be guessed from the bytes on the
// network.
const (
	minSecretBytes = 16
	maxSecretBytes = 1 << 10
)

// readSecret returns the secret that a file holds, without the line's end.
//
// Errors: ErrConfig, where others may read the file or it is too short; the system's.
func readSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	n, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(n)
	var st unix.Stat_t
	if err := unix.Fstat(n, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: the secret in %s: it must be a file that nobody else may "+
			"read: chmod 600 it", ErrConfig, path)
	}
	b := make([]byte, maxSecretBytes+1)
	k, err := unix.Read(n, b)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	b = bytes.TrimRight(b[:k], "\r\n")
	if len(b) < minSecretBytes || len(b) > maxSecretBytes {
		return nil, fmt.Errorf("%w: the secret in %s has %d bytes, not %d to %d", ErrConfig, path,
			len(b), minSecretBytes, maxSecretBytes)
	}
	return b, nil
}
