// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package xrcfile

import "errors"

// Elsewhere than on Linux processes do not share domains: there are no rings between them.

// Place is this process's in a domain.
type Place struct{}

// Link is a connection to another process of the domain.
type Link struct{}

// Enter makes this process one of a domain.
func Enter(Options) (*Place, error) { return nil, errors.ErrUnsupported }

// Dial makes a link to the process of a slot.
func (p *Place) Dial(int, Handler, func() bool) (*Link, error) { return nil, errors.ErrUnsupported }

// Go calls f in a goroutine.
func (p *Place) Go(func()) bool { return false }

// Close leaves the domain.
func (p *Place) Close() {}

// Send sends a message.
func (l *Link) Send([]byte) error { return errors.ErrUnsupported }

// Go calls f in a goroutine.
func (l *Link) Go(func()) bool { return false }

// Close ends a link.
func (l *Link) Close() {}
