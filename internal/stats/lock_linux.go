// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"os"
	"syscall"
	"time"

	"verbena/internal/sys/futex"
)

const (
	// lockTries and lockPause bound the wait for a lock to half the patience of a C program's exit:
	// the process that holds it may be stopped.
	lockTries = 100
	lockPause = 5 * time.Millisecond
)

// lockFile locks a file, which closing it unlocks. It fails if another has it locked for long.
func lockFile(f *os.File) (err error) {
	for range lockTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR && err != syscall.EWOULDBLOCK {
			return err
		}
		futex.Sleep(lockPause)
	}
	return err
}
