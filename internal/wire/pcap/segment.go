// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"net/netip"
	"time"
)

// Segment is one TCP segment of a capture.
type Segment struct {
	Time      time.Time
	Src, Dst  netip.AddrPort
	Direction Direction

	Seq           uint32 // of the first byte, or of SYN
	SYN, FIN, RST bool
	HasAck        bool
	Ack           uint32 // the next byte expected of the other side, if HasAck

	Payload   []byte // of a Reader: valid until its next call
	Truncated bool   // the capture holds only the beginning of the payload
	Missing   int    // bytes of the payload behind that
	FrameLen  int    // bytes on the link, whatever was captured of them
	Comment   string // of the frame; several are lines
}
