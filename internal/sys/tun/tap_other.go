// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package tun

import (
	"errors"
	"net/netip"
)

// ErrStopped is returned by Read after Stop.
var ErrStopped = errors.New("tun: stopped")

var errSystem = errors.New("tun: this system has no TAP interfaces that this package knows")

// A TAP is an interface of ours.
type TAP struct{ Name string }

// Open makes a TAP interface: not on this system.
func Open(name string) (*TAP, error) { return nil, errSystem }

// Close ends the interface.
func (*TAP) Close() error { return nil }

// Configure takes the interface up.
func (*TAP) Configure(address netip.Prefix) error { return errSystem }

// SetMTU sets how long packets may be.
func (*TAP) SetMTU(bytes int) error { return errSystem }

// SetCarrier sets the interface's carrier: whether there is a peer.
func (*TAP) SetCarrier(on bool) error { return errSystem }

// Read waits for a frame.
func (*TAP) Read(b []byte) (int, error) { return 0, errSystem }

// Stop ends Read.
func (*TAP) Stop() {}

// Write has the kernel receive a frame.
func (*TAP) Write(frame []byte) error { return errSystem }
