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

// The keeper of port 4791 is VERBENA_KEEPER, the program beside the libraries, or the command
// in $PATH.
func init() {
	portshare.StartKeeper = startKeeper
}

func startKeeper(dir string) error {
	option, await := portshare.Detached, C.int(0)
	path := besideLibrary("verbena-keeper")
	if path == "" || portshare.NamedKeeper() != "" { // it may be of another version, and says so
		var err error
		if path, err = portshare.KeeperPath(); err != nil {
			return err
		}
		option, await = portshare.SlotsOption, 1
	}
	errno := C.vb_detach(terminated(path), await, -1,
		terminated(portshare.KeeperCommand), terminated(option), terminated(dir))
	if errno != 0 {
		return fmt.Errorf("%s: %w", path, syscall.Errno(errno))
	}
	return nil
}

// besideLibrary returns the path of a program that is installed with the libraries, empty if
// there is none.
func besideLibrary(name string) string {
	var buf [4096]C.char
	C.vb_library_dir(&buf[0], C.uint(len(buf)))
	dir := C.GoString(&buf[0])
	if dir == "" {
		return ""
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if st, statErr := os.Stat(path); err != nil || statErr != nil || !st.Mode().IsRegular() {
		return ""
	}
	return path
}
