// SPDX-License-Identifier: BSD-2-Clause

package packet

import (
	"encoding/binary"
	"errors"
)

// ErrNoFrames reports an interface that carries no Ethernet frames.
var ErrNoFrames = errors.New("the interface carries no Ethernet frames")

const (
	headerBytes = 14
	tagBytes    = 4 // of a VLAN
	tagAt       = 12

	// MaxBytes is the length of the longest frame that a Sender takes: that of an interface with
	// the MTU of loopback. A Receiver drops longer ones.
	MaxBytes = 1<<16 + headerBytes + tagBytes
)

// arrival is the kernel's description of a frame that it gives to a Receiver.
type arrival struct {
	// The frame's checksum is not filled in: it covers the bytes from sumStart on, and has its
	// place sumOffset bytes behind that.
	unsummed            bool
	sumStart, sumOffset int

	// The kernel has taken a VLAN tag out.
	tagged   bool
	tpid, id uint16
}

// complete undoes what the kernel did to the first n bytes of b, a frame, and returns it. b has
// room for a tag more. ok is false if a is not about this frame.
func (a *arrival) complete(b []byte, n int) (frame []byte, ok bool) {
	if n < headerBytes || n+tagBytes > len(b) {
		return nil, false
	}
	if a.unsummed {
		at := a.sumStart + a.sumOffset
		if a.sumStart < 0 || a.sumOffset < 0 || at+2 > n {
			return nil, false
		}
		sum := ^fold(b[a.sumStart:n])
		if sum == 0 {
			sum = 0xffff // UDP: 0 would say that there is none. Others take both for 0.
		}
		binary.BigEndian.PutUint16(b[at:], sum)
	}
	if a.tagged {
		copy(b[tagAt+tagBytes:n+tagBytes], b[tagAt:n])
		binary.BigEndian.PutUint16(b[tagAt:], a.tpid)
		binary.BigEndian.PutUint16(b[tagAt+2:], a.id)
		n += tagBytes
	}
	return b[:n], true
}

// fold returns the sum of the Internet checksum.
//
// Spec: RFC 1071.
func fold(b []byte) uint16 {
	var sum uint64
	for len(b) >= 4 {
		sum += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
