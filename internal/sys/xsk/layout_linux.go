// SPDX-License-Identifier: BSD-2-Clause

package xsk

import "fmt"

const (
	pageBytes = 4096
	// headroom is the number of bytes that the kernel keeps free before a frame received
	// (XDP_PACKET_HEADROOM).
	headroom   = 256
	smallFrame = 2048
	largeFrame = 4096
	// maxPieces bounds the frames of one packet: a jumbo packet of 9,018 bytes has three.
	maxPieces = 4
)

// Layout says where everything is in a pool's memory. It is a function of its exported fields.
type Layout struct {
	Interface  int // index
	Queues     int // of the interface, from 0 on
	FrameBytes int
}

// newLayout returns the layout for an interface.
func newLayout(index, queues, mtu int) (Layout, error) {
	l := Layout{Interface: index, Queues: queues, FrameBytes: smallFrame}
	if queues < 1 || queues > MaxQueues {
		return l, fmt.Errorf("xsk: %d queues: 1 to %d can be used", queues, MaxQueues)
	}
	if mtu+ethernetBytes > smallFrame-headroom {
		l.FrameBytes = largeFrame
	}
	return l, nil
}

// valid reports whether a layout that another process tells of can be used.
func (l Layout) valid() bool {
	return l.Queues >= 1 && l.Queues <= MaxQueues &&
		(l.FrameBytes == smallFrame || l.FrameBytes == largeFrame)
}

// rxTotal is the number of frames to receive of each queue.
func (l Layout) rxTotal() int { return Places * rxFrames }

// framesAt is the offset of the frames in the memory: of address 0 of the kernel's descriptors.
func (l Layout) framesAt() int {
	return roundUp(ledgerBytes, pageBytes)
}

// frames is the number of all frames.
func (l Layout) frames() int { return l.Queues*l.rxTotal() + Places*txFrames }

// bytes is the length of the memory.
func (l Layout) bytes() int { return l.framesAt() + l.frames()*l.FrameBytes }

// rxAddr is the address of a frame to receive, at first in the fill ring of a queue.
func (l Layout) rxAddr(queue, i int) uint64 {
	return uint64((queue*l.rxTotal() + i) * l.FrameBytes)
}

// txAddr is the address of a frame to send.
func (l Layout) txAddr(place, i int) uint64 {
	return uint64((l.Queues*l.rxTotal() + place*txFrames + i) * l.FrameBytes)
}

// txFrame returns the place and the number of a frame to send; ok is false for other addresses.
func (l Layout) txFrame(addr uint64) (place, i int, ok bool) {
	n := int(addr/uint64(l.FrameBytes)) - l.Queues*l.rxTotal()
	if n < 0 || n >= Places*txFrames {
		return 0, 0, false
	}
	return n / txFrames, n % txFrames, true
}

// txQueue is the queue that a place sends by.
func (l Layout) txQueue(place int) int { return place % l.Queues }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
