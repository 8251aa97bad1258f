// SPDX-License-Identifier: BSD-2-Clause

package tcp

import "golang.org/x/sys/unix"

// Descriptors returns how many descriptors the process may have.
//
// Spec: getrlimit(2), RLIMIT_NOFILE
func Descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return usualDescriptors
	}
	return int(min(l.Cur, 1<<20))
}
