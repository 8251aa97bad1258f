// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package packet

import "errors"

// Sender does not exist on this system.
type Sender struct{}

// OpenSender fails.
func OpenSender(int) (*Sender, error) { return nil, errors.ErrUnsupported }

// Stale is never called.
func (*Sender) Stale() bool { return true }

// Longest is never called.
func (*Sender) Longest() (int, error) { return 0, errors.ErrUnsupported }

// Send is never called.
func (*Sender) Send([]byte) (full bool, err error) { return false, errors.ErrUnsupported }

// Close is never called.
func (*Sender) Close() error { return nil }

// Receiver does not exist on this system.
type Receiver struct{}

// OpenReceiver fails.
func OpenReceiver(int) (*Receiver, error) { return nil, errors.ErrUnsupported }

// Read is never called.
func (*Receiver) Read() ([]byte, error) { return nil, errors.ErrUnsupported }

// Admit is never called.
func (*Receiver) Admit(Address) error { return errors.ErrUnsupported }

// Refuse is never called.
func (*Receiver) Refuse(Address) error { return errors.ErrUnsupported }

// TakeDropped is never called.
func (*Receiver) TakeDropped() uint64 { return 0 }

// FD is never called.
func (*Receiver) FD() int { return -1 }

// Close is never called.
func (*Receiver) Close() error { return nil }
