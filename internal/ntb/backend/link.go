// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
)

// Errors of links.
var (
	ErrLost     = errors.New("ntb: the peer is gone")
	ErrTimeout  = errors.New("ntb: no peer came in time")
	ErrProtocol = errors.New("ntb: the peer does not follow the protocol")
	ErrSecret   = errors.New("ntb: the peer does not know the secret of the link, or has one " +
		"that we do not")
	// ErrInUse is EBUSY, ErrConfig EINVAL.
	ErrInUse  error = &refusal{"ntb: this side is in use", syscall.EBUSY}
	ErrConfig error = &refusal{"ntb: invalid configuration", syscall.EINVAL}
	// ErrGone: there will be no link any more.
	ErrGone = errors.New("ntb: the memory of the windows, or our descriptors, are gone")
)

// refusal is an error of a link that cannot be opened as it is configured, with an errno.
type refusal struct {
	text  string
	errno syscall.Errno
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.errno }

// A Link is an open back end.
type Link interface {
	// Own returns the window that the peer writes.
	Own() *window.Window
	// PeerBytes returns the length of the window that Write writes.
	PeerBytes() uint64
	// Write carries a batch out, which may be reset after. channel.ErrFault: it
	// stopped at memory that is not mapped any more; the link goes on.
	Write(b *channel.Batch) error
	// Flush goes on with the rest of an earlier Write. While it reports pending, no batch should be
	// made.
	Flush() (pending bool, err error)
	// Ring wakes the peer, if the link does not do so by itself.
	Ring()
	// Receive takes arrived bytes.
	Receive() error
	// Wait returns when something may have come, there is room to Flush, or d is
	// over. Receive follows.
	Wait(d time.Duration) error
	// FDs returns the descriptors that are readable when something may have come, for callers that
	// wait for more than this link; Wait(0) then reports it, and makes them unreadable. If there
	// are none the caller has to look again and again.
	FDs() []int
	// Close ends the link.
	Close() error
}

// Limits of a window.
const (
	MinWindowBytes = 1 << 17
	MaxWindowBytes = 1 << 40
)

func checkBytes(n uint64) error {
	if n < MinWindowBytes || n > MaxWindowBytes || n%4096 != 0 {
		return fmt.Errorf("%w: a window of %d bytes: it has at least %d, in whole pages", ErrConfig,
			n, MinWindowBytes)
	}
	return nil
}
