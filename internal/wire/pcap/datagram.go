// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"net/netip"
	"time"

	"verbena/internal/wire/roce"
)

// Direction says whether the capturing host has sent a frame or received it. Its values are those
// of pcapng's epb_flags.
type Direction uint8

// Directions.
const (
	DirectionUnknown Direction = iota // the capture does not say
	Inbound
	Outbound
)

// Datagram is one UDP datagram of a capture.
type Datagram struct {
	Time      time.Time
	Src, Dst  netip.AddrPort
	Direction Direction

	IPID         uint16 // identification; 0 in IPv6, which has none
	DontFragment bool   // true in IPv6
	TrafficClass uint8  // TOS of IPv4: DSCP (6) | ECN (2)
	HopLimit     uint8  // TTL of IPv4; a Writer takes 0 for 64

	Payload   []byte // RoCEv2: from BTH to ICRC; valid until the next call of Next
	Truncated bool   // the capture holds only the beginning of the payload
	Missing   int    // bytes of the payload behind that
	FrameLen  int    // bytes on the link, whatever was captured of them
	Comment   string // of the frame; several are lines
}

// Pseudo returns the IP and UDP header fields that the ICRC of this datagram covers.
func (d *Datagram) Pseudo() roce.Pseudo {
	return roce.NewPseudo(d.Src.Addr(), d.Dst.Addr(), d.Src.Port(), d.Dst.Port())
}

// VerifyICRC reports whether the ICRC is right for the headers captured.
func (d *Datagram) VerifyICRC() bool {
	p := d.Pseudo()
	return p.VerifyWithID(d.Payload, d.IPID)
}
