// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// An application that closes all descriptors, and has others under their numbers
// by the time that it stops watching: these are left alone, and nobody waits.
func TestStopAfterTheDescriptorsWereClosed(t *testing.T) {
	_, stop := listening(t)
	mu.Lock()
	l := current
	mu.Unlock()
	var others [2]int
	for i, fd := range []int{l.socket, l.stop} {
		fdtrack.Remove(fd)
		must(t, unix.Close(fd))
		pipe := make([]int, 2)
		must(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
		if pipe[0] != fd {
			must(t, unix.Dup3(pipe[0], fd, unix.O_CLOEXEC))
		}
		others[i] = fd
	}
	stop()
	for _, fd := range others {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("descriptor %d of the application was closed: %v", fd, err)
		}
	}
}
