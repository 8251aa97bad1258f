// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	wire "verbena/internal/wire/ntb"
)

// appMemory is the part of our window that is the application's: peers write memory registered
// there directly. It lies at the window's end, and is laid out anew with no session.
type appMemory struct {
	reserved uint64
	app      *arena
}

// appGrain divides the size of pieces of the application's memory: pages.
const appGrain = 4096

// ReserveMemory keeps the last n bytes of a window of so many for the application,
// multiples of a page both. It comes before the first Attach.
func (n *Node) ReserveMemory(windowBytes, bytes uint64) {
	if bytes > windowBytes || windowBytes-bytes < MinWindowBytes {
		panic("ntb: no window left")
	}
	n.reserved, n.app = bytes, newArena(windowBytes-bytes, bytes)
}

// TakeMemory returns where in our window size bytes for the application are.
func (n *Node) TakeMemory(size uint64) (at uint64, ok bool) {
	if n.app == nil || size == 0 || size > n.reserved {
		return 0, false
	}
	return n.app.take((size + appGrain - 1) &^ (appGrain - 1))
}

// GiveMemory takes back size bytes that TakeMemory returned.
func (n *Node) GiveMemory(at, size uint64) { n.app.give(at, (size+appGrain-1)&^(appGrain-1)) }

// usable returns how long our window is for ourselves and the peer's data.
func (n *Node) usable() uint64 { return n.ch.Own().Len() - n.reserved }

// Piece returns the one piece that n bytes from a place in our window on are.
func Piece(at, bytes uint64) []wire.Piece { return []wire.Piece{{At: at, Bytes: bytes}} }
