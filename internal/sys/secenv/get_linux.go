// SPDX-License-Identifier: BSD-2-Clause

package secenv

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const atSecure = 23 // AT_SECURE of elf.h

// told is set before the first Get.
var told bool

// Distrust notes that the process must not trust its environment. A library passes on the C
// library's answer: the dynamic linker removes variables from such a process, in a way that leaves
// Go without the auxiliary vector behind them.
func Distrust() { told = true }

// secure reports whether the kernel told the process, when it was executed, to distrust
// its environment. Without an auxiliary vector the user and group IDs are compared.
//
// Man page: getauxval(3), AT_SECURE.
var secure = sync.OnceValue(func() bool {
	vector, err := unix.Auxv()
	if told || err != nil {
		return told || os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
	}
	for _, v := range vector {
		if v[0] == atSecure {
			return v[1] != 0
		}
	}
	return false
})

// Get returns the value of a variable: "" where it is not set, or where the process
// must not trust its environment.
func Get(name string) string {
	if secure() {
		return ""
	}
	return os.Getenv(name)
}
