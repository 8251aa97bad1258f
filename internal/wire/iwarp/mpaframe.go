// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "encoding/binary"

// Sizes of MPA set-up frames.
const (
	MPAFrameBytes   = 20  // without private data
	MaxPrivateBytes = 512 // of the enhanced data and the private data together
	EnhancedBytes   = 4
)

// Keys that MPA set-up frames begin with.
const (
	mpaRequestKey = "MPA ID Req Frame"
	mpaReplyKey   = "MPA ID Rep Frame"
	mpaKeyBytes   = 16
)

// Flags of a set-up frame, byte 16.
const (
	mpaMarkers  = 1 << 7
	mpaCRC      = 1 << 6
	mpaReject   = 1 << 5
	mpaEnhanced = 1 << 4
	// Deviation: RFC 7306 leaves it to applications to know whether the peer has
	// it. A reserved bit, which receivers do not look at, says so to our own kind:
	// one of a Request and another of a Reply, as siw repeats in its Reply whatever
	// bits the Request had.
	mpaRequestExtensions = 1 << 0
	mpaReplyExtensions   = 1 << 1
)

// An MPAFrame begins the stream of each side of a connection: the Request of
// the initiator, the Reply of the responder.
//
// Spec: RFC 5044, 7.1.1 (MPA Request and Reply frame format); RFC 6581, 7.
type MPAFrame struct {
	Reply    bool
	Markers  bool // M: the sender wants markers in the stream to it
	CRC      bool // C: the sender wants CRCs; both ends then use them
	Reject   bool // R, of a Reply: the connection is refused
	Revision uint8
	// IsEnhanced says that Enhanced stands before the private data (S).
	IsEnhanced  bool
	Enhanced    Enhanced
	Extensions  bool   // the sender has RFC 7306; known of our own kind only
	PrivateData []byte // of the application; aliases the buffer parsed
}

// MPAFrameLen returns the length of the set-up frame at the front of b, or the number of bytes
// needed to know it. ok is false if b begins no set-up frame that Parse would take.
func MPAFrameLen(b []byte) (n int, ok bool) {
	k := min(len(b), mpaKeyBytes)
	if s := string(b[:k]); s != mpaRequestKey[:k] && s != mpaReplyKey[:k] {
		return 0, false
	}
	if len(b) < MPAFrameBytes {
		return MPAFrameBytes, true
	}
	pd := int(binary.BigEndian.Uint16(b[18:]))
	if pd > MaxPrivateBytes || b[16]&mpaEnhanced != 0 && pd < EnhancedBytes {
		return 0, false
	}
	return MPAFrameBytes + pd, true
}

// ParseMPAFrame reads a set-up frame from the front of b.
func ParseMPAFrame(b []byte) (f MPAFrame, rest []byte, ok bool) {
	n, ok := MPAFrameLen(b)
	if !ok || len(b) < MPAFrameBytes || len(b) < n {
		return MPAFrame{}, b, false
	}
	f.Reply = string(b[:mpaKeyBytes]) == mpaReplyKey // Key (128)
	f.Markers = b[16]&mpaMarkers != 0                // M C R S (4) | reserved (4)
	f.CRC = b[16]&mpaCRC != 0
	f.Reject = b[16]&mpaReject != 0
	f.IsEnhanced = b[16]&mpaEnhanced != 0
	f.Extensions = b[16]&f.extensions() != 0
	f.Revision = b[17] // Rev (8), PD_Length (16)
	data := b[MPAFrameBytes:n:n]
	if f.IsEnhanced {
		f.Enhanced, data, _ = ParseEnhanced(data)
	}
	f.PrivateData = data
	return f, b[n:], true
}

// Append appends f to b. The private data must fit: MaxPrivateBytes, less
// EnhancedBytes if the frame is enhanced.
func (f MPAFrame) Append(b []byte) []byte {
	key, n := mpaRequestKey, len(f.PrivateData)
	if f.Reply {
		key = mpaReplyKey
	}
	var flags uint8
	if f.Markers {
		flags |= mpaMarkers
	}
	if f.CRC {
		flags |= mpaCRC
	}
	if f.Reject {
		flags |= mpaReject
	}
	if f.IsEnhanced {
		flags |= mpaEnhanced
		n += EnhancedBytes
	}
	if f.Extensions {
		flags |= f.extensions()
	}
	b = append(b, key...)
	b = append(b, flags, f.Revision, byte(n>>8), byte(n))
	if f.IsEnhanced {
		b = f.Enhanced.Append(b)
	}
	return append(b, f.PrivateData...)
}

// String returns Wireshark's words.
func (f MPAFrame) String() string {
	if f.Reply {
		return "MPA Reply Frame"
	}
	return "MPA Request Frame"
}

func (f *MPAFrame) extensions() uint8 {
	if f.Reply {
		return mpaReplyExtensions
	}
	return mpaRequestExtensions
}
