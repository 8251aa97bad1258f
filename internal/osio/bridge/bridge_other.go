//go:build !linux

package bridge

import (
	"errors"
	"net/netip"
	"time"
)

// ErrSystem is what opening a link says elsewhere than on Linux.
var ErrSystem = errors.New("bridge: not on this system")

// A Listener waits for peers.
type Listener struct{}

// Accept returns the link of the next peer.
func (*Listener) Accept(time.Duration) (Link, error) { return nil, ErrSystem }

// Close stops listening.
func (*Listener) Close() error { return nil }

// ListenTCP waits for peers at an address.
func ListenTCP(at netip.AddrPort, windowBytes uint64) (*Listener, error) { return nil, ErrSystem }

// DialTCP goes to the peer at an address.
func DialTCP(at netip.AddrPort, windowBytes uint64, d time.Duration) (Link, error) {
	return nil, ErrSystem
}

// ListenShm waits for peers at a path.
func ListenShm(path string, windowBytes uint64) (*Listener, error) { return nil, ErrSystem }

// DialShm goes to the peer that listens at a path.
func DialShm(path string, windowBytes uint64, d time.Duration) (Link, error) { return nil, ErrSystem }

// Map opens one side of a link through a file.
func Map(path string, side int) (Link, error) { return nil, ErrSystem }
