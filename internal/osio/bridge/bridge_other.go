//go:build !linux

package bridge

import (
	"errors"
	"time"

	"verbena/internal/ntb/window"
)

// ErrSystem is what opening a link says elsewhere than on Linux.
var ErrSystem = errors.New("bridge: not on this system")

// An Opener opens links.
type Opener struct{}

// NewOpener takes our end of a link.
func NewOpener(e Endpoint, windowBytes uint64) (*Opener, error) { return nil, ErrSystem }

// Free returns the side that a process would have that came to an endpoint now.
func Free(e Endpoint) (side int, ok bool) { return 0, false }

// Side returns which end ours is.
func (*Opener) Side() int { return 0 }

// Own returns the window that the peer writes.
func (*Opener) Own() *window.Window { return nil }

// Inherited reports whether our window may have been another process's.
func (*Opener) Inherited() bool { return false }

// Open opens a link.
func (*Opener) Open(d time.Duration) (Link, error) { return nil, ErrSystem }

// Pause waits.
func (*Opener) Pause(d time.Duration) {}

// Cancel ends waiting.
func (*Opener) Cancel() {}

// Close gives our end up.
func (*Opener) Close() error { return nil }
