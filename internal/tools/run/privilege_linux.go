// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unprivileged refuses a file that gains privilege when executed: the loader
// then ignores LD_LIBRARY_PATH, and LD_PRELOAD with slashes.
//
// Man page: ld.so(8), "Secure-execution mode".
func unprivileged(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil // the system will report the error
	}
	const why = "%s is %s: the loader ignores LD_LIBRARY_PATH for it; run a copy of it that is not"
	if st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf(why, path, "setuid")
	}
	if st.Mode&unix.S_ISGID != 0 && st.Mode&unix.S_IXGRP != 0 && int(st.Gid) != os.Getegid() {
		return fmt.Errorf(why, path, "setgid")
	}
	if os.Geteuid() != 0 {
		if n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil); err == nil && n > 0 {
			return fmt.Errorf(why, path, "a file with capabilities")
		}
	}
	return nil
}
