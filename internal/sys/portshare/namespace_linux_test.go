// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread may be in another network namespace than its process began in, the main thread too. A
// member meets the processes that its sockets can be shared with. A test that had left the main
// thread elsewhere made the tests after it find their port taken by this user's own processes.
func TestMembersMeetByTheirThreadsNamespace(t *testing.T) {
	dir := t.TempDir()
	outside, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	inside, done := paths{}, make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, or does nothing any more
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			inside, err = openDir(dir)
		}
		done <- err
	}()
	if err := <-done; err == unix.EPERM {
		t.Skip("a network namespace needs CAP_SYS_ADMIN: run as root")
	} else if err != nil {
		t.Fatal(err)
	}
	if inside.lock == outside.lock || inside.socket == outside.socket || inside.wills == outside.wills {
		t.Errorf("members of two network namespaces meet at %v", inside)
	}
	if now, err := openDir(dir); err != nil || now != outside {
		t.Errorf("members meet at %v now, not at %v: %v", now, outside, err)
	}
}
