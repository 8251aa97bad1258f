// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package udp

import (
	"errors"
	"net/netip"
)

// haveRaw makes Listen use package net.
const haveRaw = false

func (s *Socket) listenRaw(netip.AddrPort, Options) error { return errors.ErrUnsupported }

// MaxQueued returns a bound of the messages that the receive buffer can hold.
func (s *Socket) MaxQueued() int { return bufferBytes }

// rxHeaders are empty where datagrams are read one at a time.
type rxHeaders struct{}

func (*rxHeaders) init(*RxBatch) {}
