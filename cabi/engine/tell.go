//go:build cabi

package main

import (
	"strings"
	"sync"
	"syscall"

	"verbena/internal/osio/rundir"
)

// tell writes a line to stderr that the user is to see without asking for it: C has
// no way to pass words on. It is not package os's, which ends a process whose stderr
// is a pipe that nobody reads.
func tell(words string) {
	_, _ = syscall.Write(2, []byte("verbena: "+strings.Join(strings.Fields(words), " ")+"\n")) // it may be closed
}

// tellRuntimeDir says, once a process, that XDG_RUNTIME_DIR is not used.
var tellRuntimeDir = sync.OnceFunc(func() {
	if _, err := rundir.Dir(); err != nil {
		tell(err.Error())
	}
})
