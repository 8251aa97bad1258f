// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"verbena/internal/sys/rundir"
)

var errRegular = errors.New("it is not a regular file")

// readRegular returns the first recordBytes of a file, which are all of one that this package has
// written.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, recordBytes)) }

// trusted returns an error for a directory that is another user's, or that others may write in.
// One that does not exist has no processes.
func trusted(dir string) error {
	if err := rundir.Check(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
