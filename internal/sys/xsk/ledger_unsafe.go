// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package xsk

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// ledger is the part of a pool's memory that is no frame: locks and bits. All processes write it.
// So each process checks an address that it reads there before it uses it.
type ledger struct {
	magic      uint64
	iface      uint32
	queues     uint32
	frameBytes uint32
	_          [44]byte

	queue [MaxQueues]queueLedger
	free  [Places][txFrames / 64]atomic.Uint64 // a bit for each frame to send that is not under way
}

// queueLedger has the locks of the common rings of a queue, each in a cache line of its own.
type queueLedger struct {
	fill       lock
	completion lock
}

// lock is held for some stores. It names the process that has it, and what that is about to do.
type lock struct {
	holder atomic.Uint32 // place + 1; 0 is none
	// of the holder: the fill ring's producer, its own receive ring's consumer, and the entries
	// that it moves from one to the other
	produced, consumed, count atomic.Uint32
	_                         [48]byte
}

const (
	ledgerBytes = int(unsafe.Sizeof(ledger{}))
	ledgerMagic = 0x56_58_53_4b_00_00_00_01 // a version of the layout in the low half
)

// try takes the lock for the process of a place, unless another one has it.
func (l *lock) try(place int) bool { return l.holder.CompareAndSwap(0, uint32(place)+1) }

func (l *lock) release() { l.holder.Store(0) }

func ledgerOf(memory []byte) *ledger { return (*ledger)(unsafe.Pointer(unsafe.SliceData(memory))) }

// take returns a frame of a place that is not under way, which is from now on.
func (l *ledger) take(place int) (frame int, ok bool) {
	words := &l.free[place]
	for i := range words {
		if w := words[i].Load(); w != 0 {
			bit := bits.TrailingZeros64(w)
			words[i].And(^(uint64(1) << bit))
			return i*64 + bit, true
		}
	}
	return 0, false
}

// put notes that a frame is not under way.
func (l *ledger) put(place, frame int) {
	l.free[place][frame/64].Or(1 << (frame % 64))
}

// available returns the number of a place's frames that are not under way.
func (l *ledger) available(place int) (n int) {
	for i := range l.free[place] {
		n += bits.OnesCount64(l.free[place][i].Load())
	}
	return n
}

// reset makes all frames of a place free.
func (l *ledger) reset(place int) {
	for i := range l.free[place] {
		l.free[place][i].Store(^uint64(0))
	}
}
