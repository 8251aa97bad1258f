// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package shmring

import (
	"errors"

	"verbena/internal/monotime"
)

// Elsewhere than on Linux there are no rings between processes.

// Out is a ring to another process.
type Out struct {
	*Producer
	Peer Identity
}

func (o *Out) Wake()           {}
func (o *Out) HangUp()         {}
func (o *Out) Open() bool      { return false }
func (o *Out) Taken() bool     { return false }
func (o *Out) Alive() bool     { return false }
func (o *Out) PeerEnded() bool { return false }

func (o *Out) Await(monotime.Duration) bool { return false }
func (o *Out) Close()                       {}

// In is a ring from another process.
type In struct {
	*Consumer
	Peer Identity
}

func (i *In) HangUp() {}
func (i *In) Close()  {}

// NewBoard returns none: nobody looks.
func NewBoard() *Board { return nil }

func (b *Board) End() {}

// Listener would take connections of other processes.
type Listener struct{}

func Listen(string, Identity, int, func(*In), func(any)) (*Listener, error) {
	return nil, errors.ErrUnsupported
}

func (l *Listener) FD() int          { return -1 }
func (l *Listener) Watch(*Out) error { return errors.ErrUnsupported }
func (l *Listener) Forget(any)       {}
func (l *Listener) Serve()           {}
func (l *Listener) Withdraw()        {}
func (l *Listener) Close()           {}

func (l *Listener) Dial(string, int, monotime.Duration) (*Out, error) {
	return nil, errors.ErrUnsupported
}

func NetNamespace(int) (Identity, error) { return Identity{}, errors.ErrUnsupported }
