// SPDX-License-Identifier: BSD-2-Clause

package freeport

import (
	"fmt"
	"os"
	"regexp"
)

// ListensAt reports whether a port is listened on, at any address of a process's network namespace.
// It neither connects nor binds: a server that waits for one client does not take it for that, and
// a server that is about to bind finds its port free. See proc(5), /proc/net/tcp.
func ListensAt(pid, port int) bool {
	line := regexp.MustCompile(fmt.Sprintf(`: [0-9A-F]+:%04X [0-9A-F]+:0000 0A `, port))
	for _, file := range []string{"tcp", "tcp6"} {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file)); err == nil &&
			line.Match(b) {
			return true
		}
	}
	return false
}
