// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package rundir

import (
	"os"
	"syscall"
)

// owned reports whether a file is this user's.
func owned(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// shared reports whether others may write in a directory.
func shared(fi os.FileInfo) bool { return fi.Mode().Perm()&0o022 != 0 }
