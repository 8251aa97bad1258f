// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package xsk

import (
	"net"
	"net/netip"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// Socket is never made here: there is no AF_XDP.
type Socket struct{}

// Interface is of no use here.
func (*Socket) Interface() int { return 0 }

// Queues returns none.
func (*Socket) Queues() []*Queue { return nil }

// Source returns a Source that is the socket.
func (*Socket) Source(plain *udp.Socket, _ LookUp, _ bool) *Source { return &Source{plain} }

// Counters returns zeroes.
func (*Socket) Counters() Counters { return Counters{} }

// Close does nothing.
func (*Socket) Close() error { return nil }

// Source is the kernel's socket.
type Source struct{ *udp.Socket }

// Queue is never made here.
type Queue struct{}

// Waiting reports false.
func (*Queue) Waiting() bool { return false }

// ReadBatch reads nothing.
func (*Queue) ReadBatch(*udp.RxBatch) (int, error) { return 0, net.ErrClosed }

// WriteBatch sends nothing.
func (*Queue) WriteBatch([]udp.Datagrams) (int, error) { return 0, net.ErrClosed }

// WaitWritable does not wait.
func (*Queue) WaitWritable(monotime.Duration) error { return net.ErrClosed }

// CutsBursts reports false.
func (*Queue) CutsBursts() bool { return false }

// LocalAddr returns no address.
func (*Queue) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// FD returns no descriptor.
func (*Queue) FD() int { return -1 }

// Close does nothing.
func (*Queue) Close() error { return nil }
