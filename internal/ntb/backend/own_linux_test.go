// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"net/netip"
	"time"
)

// listenOwnTCP waits for peers at an address.
func listenOwnTCP(at netip.AddrPort, windowBytes uint64) (*Listener, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	return listenTCP(at, windowBytes, admission{}, func(f fd, peerBytes uint64) (Link, error) { return newOwnTCP(f, windowBytes, peerBytes) })
}

// dialOwnTCP goes to the peer at an address. It tries once: ErrLost if nobody listens.
func dialOwnTCP(at netip.AddrPort, windowBytes uint64, d time.Duration) (Link, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	f, peerBytes, err := dialTCP(at, windowBytes, nil, none, d)
	if err != nil {
		return nil, err
	}
	return newOwnTCP(f, windowBytes, peerBytes)
}

// newOwnTCP makes a link with a window of its own.
func newOwnTCP(f fd, windowBytes, peerBytes uint64) (Link, error) {
	own, err := newBacking(windowBytes, false)
	if err != nil {
		f.close()
		return nil, err
	}
	l := newTCP(f, own, peerBytes)
	l.ours = true
	return l, nil
}
