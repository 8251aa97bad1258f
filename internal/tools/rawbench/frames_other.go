// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package rawbench

import (
	"errors"
	"net"
	"net/netip"

	"verbena/internal/monotime"
)

// Frames is never made here: there is no AF_XDP.
type Frames struct{}

// Lengths of messages.
const (
	FramePing  = 0
	FrameWrite = 0
)

// FramesPossible fails.
func FramesPossible() error { return errors.ErrUnsupported }

// OpenFrames fails.
func OpenFrames(netip.Addr, netip.Addr, net.HardwareAddr) (*Frames, error) {
	return nil, errors.ErrUnsupported
}

// Close does nothing.
func (*Frames) Close() {}

// Echo fails.
func (*Frames) Echo(int) error { return errors.ErrUnsupported }

// Count fails.
func (*Frames) Count() error { return errors.ErrUnsupported }

// Ping fails.
func (*Frames) Ping(int, int) (PingResult, error) { return PingResult{}, errors.ErrUnsupported }

// Flood fails.
func (*Frames) Flood(int, int, int, bool) (monotime.Duration, error) {
	return 0, errors.ErrUnsupported
}
