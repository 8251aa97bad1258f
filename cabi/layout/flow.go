// SPDX-License-Identifier: BSD-2-Clause

package layout

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"verbena/ib"
)

// The specs of a struct ibv_flow_attr: enum ibv_flow_spec_type, and the sizes of the structures.
const (
	specEth     = 0x20
	specIPv4    = 0x30
	specIPv6    = 0x31
	specIPv4Ext = 0x32
	specTCP     = 0x40
	specUDP     = 0x41
	actionTag   = 0x1000
	actionDrop  = 0x1001

	ethBytes     = 40
	ipv4Bytes    = 24
	ipv4ExtBytes = 32
	ipv6Bytes    = 88
	portsBytes   = 16
	tagBytes     = 12
	dropBytes    = 8
)

// FlowSpecs returns the specs that follow a struct ibv_flow_attr. Values are in network order,
// types and sizes in the host's.
//
// Errors: EINVAL for a spec of a wrong size, or one that is not whole; EOPNOTSUPP for other types.
func FlowSpecs(b []byte) (specs []ib.FlowSpec, err error) {
	for len(b) > 0 {
		if len(b) < 6 {
			return nil, fmt.Errorf("spec %d is not whole: %w", len(specs), syscall.EINVAL)
		}
		kind, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[4:]))
		want := map[uint32]int{specEth: ethBytes, specIPv4: ipv4Bytes, specIPv4Ext: ipv4ExtBytes,
			specIPv6: ipv6Bytes, specTCP: portsBytes, specUDP: portsBytes,
			actionTag: tagBytes, actionDrop: dropBytes}[kind]
		if want == 0 {
			return nil, fmt.Errorf("spec %d is of type %#x: %w", len(specs), kind,
				syscall.EOPNOTSUPP)
		}
		if size != want || size > len(b) {
			return nil, fmt.Errorf("spec %d of type %#x has %d bytes, not %d: %w", len(specs), kind,
				size, want, syscall.EINVAL)
		}
		specs = append(specs, flowSpec(kind, b[:size]))
		b = b[size:]
	}
	return specs, nil
}

// flowSpec returns a spec. The places are those of the structures' members.
func flowSpec(kind uint32, b []byte) ib.FlowSpec {
	switch kind {
	case specEth:
		return ib.FlowSpecEth{Val: flowEth(b[6:]), Mask: flowEth(b[22:])}
	case specIPv4:
		return ib.FlowSpecIPv4{Val: flowIPv4(b[8:]), Mask: flowIPv4(b[16:])}
	case specIPv4Ext:
		s := ib.FlowSpecIPv4{Val: flowIPv4(b[8:]), Mask: flowIPv4(b[20:])}
		s.Val.Proto, s.Val.TOS, s.Val.TTL, s.Val.Flags = b[16], b[17], b[18], b[19]
		s.Mask.Proto, s.Mask.TOS, s.Mask.TTL, s.Mask.Flags = b[28], b[29], b[30], b[31]
		return s
	case specIPv6:
		return ib.FlowSpecIPv6{Val: flowIPv6(b[8:]), Mask: flowIPv6(b[48:])}
	case specTCP:
		return ib.FlowSpecTCP{Val: flowPorts(b[6:]), Mask: flowPorts(b[10:])}
	case actionTag:
		return ib.FlowActionTag{Tag: binary.NativeEndian.Uint32(b[8:])}
	case actionDrop:
		return ib.FlowActionDrop{}
	}
	return ib.FlowSpecUDP{Val: flowPorts(b[6:]), Mask: flowPorts(b[10:])}
}

func flowEth(b []byte) ib.FlowEth {
	return ib.FlowEth{DstMAC: [6]byte(b), SrcMAC: [6]byte(b[6:]),
		EtherType: binary.BigEndian.Uint16(b[12:]), VLANTag: binary.BigEndian.Uint16(b[14:])}
}

func flowIPv4(b []byte) ib.FlowIPv4 {
	return ib.FlowIPv4{SrcIP: [4]byte(b), DstIP: [4]byte(b[4:])}
}

func flowIPv6(b []byte) ib.FlowIPv6 {
	return ib.FlowIPv6{SrcIP: [16]byte(b), DstIP: [16]byte(b[16:]),
		FlowLabel: binary.BigEndian.Uint32(b[32:]), NextHdr: b[36], TrafficClass: b[37],
		HopLimit: b[38]}
}

func flowPorts(b []byte) ib.FlowPorts {
	return ib.FlowPorts{DstPort: binary.BigEndian.Uint16(b),
		SrcPort: binary.BigEndian.Uint16(b[2:])}
}
