// SPDX-License-Identifier: BSD-2-Clause

package ib

// FlowType selects the frames of a flow: ibv_flow_attr_type.
type FlowType uint8

// Types of flows.
const (
	FlowNormal     FlowType = 0 // those that match the specs
	FlowAllDefault FlowType = 1 // those that no other flow takes
	FlowMCDefault  FlowType = 2 // those to groups that no other flow takes
	FlowSniffer    FlowType = 3 // copies of all
)

// FlowFlags are flags of a flow: ibv_flow_flags.
type FlowFlags uint32

// FlowDontTrap leaves the frames to flows of lower priority, too.
const FlowDontTrap FlowFlags = 1 << 1

// FlowAttr describes a flow: ibv_flow_attr.
type FlowAttr struct {
	Type     FlowType
	Priority uint16 // 0 is tried first
	Port     uint8
	Flags    FlowFlags
	Specs    []FlowSpec // all match, at most one of each header; at most one action
}

// FlowSpec selects frames by one header: a FlowSpecEth, FlowSpecIPv4, FlowSpecIPv6, FlowSpecTCP or
// FlowSpecUDP. A frame matches if it has the header, and the bits of Val that are set in Mask. Or
// it is an action on the frames that match: FlowActionTag or FlowActionDrop.
type FlowSpec interface{ flowSpec() }

// FlowActionTag gives the completions of frames a tag, which WC.FlowTag returns:
// ibv_flow_spec_action_tag.
type FlowActionTag struct{ Tag uint32 }

// FlowActionDrop keeps frames from the queue pair, and from flows of lower priority:
// ibv_flow_spec_action_drop.
type FlowActionDrop struct{}

// FlowSpecEth selects frames by their Ethernet header: ibv_flow_spec_eth.
type FlowSpecEth struct{ Val, Mask FlowEth }

// FlowEth has fields of the Ethernet header: ibv_flow_eth_filter.
type FlowEth struct {
	DstMAC, SrcMAC [6]byte
	EtherType      uint16 // behind the VLAN tags
	VLANTag        uint16 // priority, DEI and identifier of the first tag
}

// FlowSpecIPv4 selects frames by their IPv4 header: ibv_flow_spec_ipv4_ext.
type FlowSpecIPv4 struct{ Val, Mask FlowIPv4 }

// FlowIPv4 has fields of the IPv4 header: ibv_flow_ipv4_ext_filter.
type FlowIPv4 struct {
	SrcIP, DstIP    [4]byte
	Proto, TOS, TTL uint8
	Flags           uint8 // 2: don't fragment; 4: more fragments
}

// FlowSpecIPv6 selects frames by their IPv6 header: ibv_flow_spec_ipv6.
type FlowSpecIPv6 struct{ Val, Mask FlowIPv6 }

// FlowIPv6 has fields of the IPv6 header: ibv_flow_ipv6_filter.
type FlowIPv6 struct {
	SrcIP, DstIP                    [16]byte
	FlowLabel                       uint32
	NextHdr, TrafficClass, HopLimit uint8
}

// FlowSpecTCP selects frames by their TCP header: ibv_flow_spec_tcp_udp.
type FlowSpecTCP struct{ Val, Mask FlowPorts }

// FlowSpecUDP selects frames by their UDP header: ibv_flow_spec_tcp_udp.
type FlowSpecUDP struct{ Val, Mask FlowPorts }

// FlowPorts has the ports of TCP and UDP: ibv_flow_tcp_udp_filter.
type FlowPorts struct{ DstPort, SrcPort uint16 }

func (FlowSpecEth) flowSpec()  {}
func (FlowSpecIPv4) flowSpec() {}
func (FlowSpecIPv6) flowSpec() {}
func (FlowSpecTCP) flowSpec()  {}
func (FlowSpecUDP) flowSpec()  {}

func (FlowActionTag) flowSpec()  {}
func (FlowActionDrop) flowSpec() {}

// FlowTag returns the tag of the flow that a frame came by, 0 if it has none.
func (w *WC) FlowTag() uint32 {
	if w.Opcode != WCRecv {
		return 0
	}
	return w.TagHigh
}

// RXHashFields is a set of fields of a frame's headers: ibv_rx_hash_fields.
type RXHashFields uint64

// Fields that spread frames over work queues. Those of IPv4 and IPv6 do not go together, nor those
// of TCP and UDP.
const (
	RXHashSrcIPv4 RXHashFields = 1 << iota
	RXHashDstIPv4
	RXHashSrcIPv6
	RXHashDstIPv6
	RXHashSrcPortTCP
	RXHashDstPortTCP
	RXHashSrcPortUDP
	RXHashDstPortUDP
)

// RSSCaps has the bounds of queue pairs that spread frames over work queues: ibv_rss_caps.
type RSSCaps struct {
	Types        QPTypes
	MaxTables    int // indirection tables
	MaxTableSize int // work queues of one
	Fields       RXHashFields
	Function     uint8 // 1: Toeplitz
}

// WQState is the state of a work queue: ibv_wq_state.
type WQState uint8

// States of work queues.
const (
	WQReset WQState = iota
	WQReady
	WQErr
)

// CounterKind is a count of a flow: ibv_counter_description.
type CounterKind uint8

// Counts of frames that flows steer.
const (
	CounterPackets CounterKind = 0
	CounterBytes   CounterKind = 1
)
