// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package backend

import (
	"errors"
	"net/netip"
	"time"

	"verbena/internal/ntb/window"
)

// ErrSystem is the error of opening a link elsewhere than on Linux.
var ErrSystem = errors.New("ntb: not on this system")

// An Opener opens links.
type Opener struct{}

// NewOpener takes our end of a link.
func NewOpener(e Endpoint, windowBytes uint64) (*Opener, error) { return nil, ErrSystem }

// SideOf returns the side that a process would have that came to an endpoint now.
func SideOf(e Endpoint) int { return 0 }

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

// A Place is a shared-memory hub.
type Place struct{}

// A Session is a link of a place.
type Session struct{ Link }

// Free gives its window back.
func (*Session) Free() {}

// Join makes this process a member of a hub.
func Join(c PlaceConfig) (*Place, error) { return nil, ErrSystem }

// Self returns this process's member.
func (*Place) Self() Member { return Member{} }

// Memory returns the part of our window that is the application's.
func (*Place) Memory() []byte { return nil }

// Announce says which addresses our port has.
func (*Place) Announce(list []netip.Addr) error { return ErrSystem }

// Members returns the members that are there.
func (*Place) Members() []Presence { return nil }

// Present reports whether a member is there.
func (*Place) Present(m Member) bool { return false }

// Claim takes a service id.
func (*Place) Claim(id uint64) error { return ErrSystem }

// Unclaim ends Claim.
func (*Place) Unclaim(id uint64) {}

// Owner returns the member of a side that has a service id.
func (*Place) Owner(side int, id uint64) (Member, bool) { return Member{}, false }

// Want has Next open a link.
func (*Place) Want(m Member) {}

// Settled withdraws a request for a link.
func (*Place) Settled(m Member) {}

// Next returns the next link.
func (*Place) Next(d time.Duration) (Member, *Session, error) { return Member{}, nil, ErrSystem }

// Cancel ends Next.
func (*Place) Cancel() {}

// Close leaves the place.
func (*Place) Close() error { return nil }
