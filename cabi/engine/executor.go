//go:build cabi

package main

// #include "detach.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"verbena/internal/osio/share"
)

// An executor of the last will is the command that belongs to the libraries, or the one in
// $PATH.
func init() {
	share.StartExecutor = startExecutor
}

func startExecutor(dir string) error {
	path, err := executorPath()
	if err != nil {
		return err
	}
	var argv [5]*C.char // the last is NULL
	for i, s := range []string{path, share.ExecutorCommand, share.Detached, dir} {
		argv[i] = C.CString(s)
		defer C.free(unsafe.Pointer(argv[i]))
	}
	if errno := C.vb_detach(argv[0], &argv[0]); errno != 0 {
		return fmt.Errorf("%s: %w", path, syscall.Errno(errno))
	}
	return nil
}

func executorPath() (string, error) {
	var buf [4096]C.char
	C.vb_library_dir(&buf[0], C.uint(len(buf)))
	if dir := C.GoString(&buf[0]); dir != "" {
		path, err := filepath.Abs(filepath.Join(dir, "..", "..", "bin", "verbena"))
		if st, statErr := os.Stat(path); err == nil && statErr == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	return share.ExecutorPath()
}
