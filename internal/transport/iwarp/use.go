// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"runtime"
	"sync"
)

// use keeps a descriptor open for as long as the thread that reads uses it, while
// others may give it up at any time.
type use struct {
	mu      sync.Mutex
	reading bool   // guarded by mu
	ended   bool   // guarded by mu
	release func() // guarded by mu: of an end that waits for the reader
}

// begin marks the beginning of a read; it returns false if there is nothing to read any more.
func (u *use) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = !u.ended
	return u.reading
}

// done ends begin.
func (u *use) done() {
	u.mu.Lock()
	u.reading = false
	release := u.release
	u.release = nil
	u.mu.Unlock()
	if release != nil {
		release()
	}
}

// end gives the descriptor up: release runs once nobody reads. It reports false
// if that was done before.
func (u *use) end(release func()) bool {
	u.mu.Lock()
	if u.ended {
		u.mu.Unlock()
		return false
	}
	u.ended = true
	if u.reading {
		u.release = release
		u.mu.Unlock()
		return true
	}
	u.mu.Unlock()
	release()
	return true
}

// take gives the descriptor up to a caller that goes on using it, once no thread reads. The thread
// that reads must not call it.
func (u *use) take() bool {
	for {
		u.mu.Lock()
		if u.ended || !u.reading {
			ok := !u.ended
			u.ended = true
			u.mu.Unlock()
			return ok
		}
		u.mu.Unlock()
		runtime.Gosched() // one system call and the owner's call back
	}
}
