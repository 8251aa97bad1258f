// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "detach.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"verbena/internal/sys/portshare"
)

// The keeper of port 4791 is the command that belongs to the libraries, or the one in
// $PATH.
func init() {
	portshare.StartKeeper = startKeeper
}

func startKeeper(dir string) error {
	path, err := keeperPath()
	if err != nil {
		return err
	}
	errno := C.vb_detach(terminated(path), terminated(portshare.KeeperCommand), terminated(portshare.Detached), terminated(dir))
	if errno != 0 {
		return fmt.Errorf("%s: %w", path, syscall.Errno(errno))
	}
	return nil
}

func keeperPath() (string, error) {
	var buf [4096]C.char
	C.vb_library_dir(&buf[0], C.uint(len(buf)))
	if dir := C.GoString(&buf[0]); dir != "" {
		path, err := filepath.Abs(filepath.Join(dir, "..", "..", "bin", "verbena"))
		if st, statErr := os.Stat(path); err == nil && statErr == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	return portshare.KeeperPath()
}
