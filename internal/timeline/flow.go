// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"net/netip"

	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
)

// maxFlows bounds the flows that are told apart; packets of further ones are left out.
const maxFlows = 1 << 16

// protocols of flows.
const (
	protoCM    = "CM"
	protoRC    = "RC"
	protoUC    = "UC"
	protoUD    = "UD"
	protoXRC   = "XRC"
	protoIWARP = "iWARP"
	protoTRP   = "TRP"
)

// flowKey tells flows apart: packets from one address to a queue pair, or one direction of a TCP
// stream or TRP association.
type flowKey struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16 // of TCP and TRP
	qpn, srcQPN      uint32 // of RoCEv2; srcQPN of UD only
	handshake        uint32 // the communication ID of a CM's client
	reply            bool   // … and from its server
}

// flow is the packets of one direction.
type flow struct {
	key      flowKey
	index    uint32
	protocol string
	peer     *flow          // the other direction
	into     *flow          // the flow of the queue pair that this handshake has made
	last     uint32         // the row of its latest packet
	seen     bool           // it has a packet
	begins   bool           // its sender asked for the connection
	asks     bool           // it has the request for a connection, or for a datagram service
	leaves   bool           // the host that captures sends it: of iWARP, in captures that say so
	told     pcap.Direction // of its first packet whose direction the capture has
	note     string         // why a connection manager rejected it
	greet    *cm.REQ
	greetQPN uint32 // of its sender

	space space
	mtu   uint32
	h     Health
	cur   uint32 // the operation that the latest request belongs to, or None
	ops   uint32 // operations begun
	own   uint32 // the queue pair that a comment says has sent it; 0 without

	answers int  // of iWARP and TRP: READs and atomics before it in space.ops are answered
	hole    bool // … segments are missing before the next operation
	ready   ready
	partial []uint32      // … of iWARP: rows of an FPDU that is not complete
	held    []heldSegment // of TRP: behind a gap
	turn    int64         // … the next segment's number
}

// real returns the flow that f has become.
func (f *flow) real() *flow {
	for f.into != nil {
		f = f.into
	}
	return f
}

// flow returns the flow of a key, a new one if need be; nil is one beyond maxFlows.
func (b *builder) flow(key flowKey, protocol string) *flow {
	if f := b.flows[key]; f != nil {
		return f
	}
	if len(b.all) >= maxFlows {
		return nil
	}
	f := &flow{key: key, index: uint32(len(b.all)), protocol: protocol, cur: None}
	b.flows[key] = f
	b.all = append(b.all, f)
	return f
}

// pair makes two flows the directions of one connection.
func pair(f, g *flow) {
	if f != nil && g != nil && f != g && f.peer == nil && g.peer == nil {
		f.peer, g.peer = g, f
	}
}
