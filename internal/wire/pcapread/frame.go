// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"math"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"verbena/internal/wire/pcap"
)

// frame is a frame taken apart. The usual layers are decoded to memory that each frame uses again:
// gopacket.NewPacket allocates a kilobyte for each, which is most of the time that reading takes.
type frame struct {
	ip        gopacket.NetworkLayer // nil without IP
	udp       *layers.UDP           // nil without UDP, and of a fragment
	tcp       *layers.TCP           // … without TCP
	truncated bool                  // headers say that there is more

	ethernet layers.Ethernet
	vlan     layers.Dot1Q
	ip4      layers.IPv4
	ip6      layers.IPv6
	udpMem   layers.UDP
	tcpMem   layers.TCP
}

// decode takes a frame apart.
func (f *frame) decode(data []byte, link layers.LinkType) {
	f.ip, f.udp, f.tcp, f.truncated = nil, nil, nil, false
	if f.decodeUsual(data, link) {
		return
	}
	p := gopacket.NewPacket(data, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	f.udp, _ = p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	f.tcp, _ = p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	f.ip, f.truncated = p.NetworkLayer(), p.Metadata().Truncated
}

// decodeUsual decodes UDP or TCP over IP without extension headers, as it is or in Ethernet. It
// reports false for all else, which may have a fault.
func (f *frame) decodeUsual(data []byte, link layers.LinkType) bool {
	next := gopacket.LayerTypeZero
	switch {
	case link == layers.LinkTypeEthernet:
		if f.ethernet.DecodeFromBytes(data, f) != nil {
			return false
		}
		next, data = f.ethernet.NextLayerType(), f.ethernet.Payload
		if next == layers.LayerTypeDot1Q {
			if f.vlan.DecodeFromBytes(data, f) != nil {
				return false
			}
			next, data = f.vlan.NextLayerType(), f.vlan.Payload
		}
	case link == layers.LinkTypeRaw && len(data) > 0 && data[0]>>4 == 4:
		next = layers.LayerTypeIPv4
	case link == layers.LinkTypeRaw && len(data) > 0 && data[0]>>4 == 6:
		next = layers.LayerTypeIPv6
	}
	switch next {
	case layers.LayerTypeIPv4:
		if f.ip4.DecodeFromBytes(data, f) != nil {
			return false
		}
		f.ip, next, data = &f.ip4, f.ip4.NextLayerType(), f.ip4.Payload
	case layers.LayerTypeIPv6:
		if f.ip6.DecodeFromBytes(data, f) != nil {
			return false
		}
		f.ip, next, data = &f.ip6, f.ip6.NextLayerType(), f.ip6.Payload
	}
	switch next {
	case layers.LayerTypeUDP:
		f.udp = &f.udpMem
		return f.udp.DecodeFromBytes(data, f) == nil
	case layers.LayerTypeTCP:
		f.tcp = &f.tcpMem
		return f.tcp.DecodeFromBytes(data, f) == nil
	}
	return false
}

// SetTruncated implements gopacket.DecodeFeedback.
func (f *frame) SetTruncated() { f.truncated = true }

// datagram returns the datagram; ok is false if the frame is not UDP, or a fragment.
func (f *frame) datagram() (d pcap.Datagram, ok bool) {
	if f.udp == nil {
		return pcap.Datagram{}, false
	}
	switch ip := f.ip.(type) {
	case *layers.IPv4:
		d.IPID, d.TrafficClass, d.HopLimit = ip.Id, ip.TOS, ip.TTL
		d.DontFragment = ip.Flags&layers.IPv4DontFragment != 0
	case *layers.IPv6:
		d.TrafficClass, d.HopLimit = ip.TrafficClass, ip.HopLimit
		d.DontFragment = true
	}
	d.Src, d.Dst, ok = f.addresses(uint16(f.udp.SrcPort), uint16(f.udp.DstPort))
	d.Payload, d.Truncated = f.udp.Payload, f.truncated
	return d, ok
}

// segment returns the segment; ok is false if the frame is not TCP, or a fragment.
func (f *frame) segment() (s pcap.Segment, ok bool) {
	t := f.tcp
	if t == nil {
		return pcap.Segment{}, false
	}
	s.Src, s.Dst, ok = f.addresses(uint16(t.SrcPort), uint16(t.DstPort))
	s.Seq, s.SYN, s.FIN, s.RST = t.Seq, t.SYN, t.FIN, t.RST
	s.HasAck, s.Ack = t.ACK, t.Ack
	s.Payload, s.Truncated = t.Payload, f.truncated
	return s, ok
}

// addresses returns where an IP packet comes from and goes to.
func (f *frame) addresses(srcPort, dstPort uint16) (src, dst netip.AddrPort, ok bool) {
	var from, to netip.Addr
	switch ip := f.ip.(type) {
	case *layers.IPv4:
		from, _ = netip.AddrFromSlice(ip.SrcIP)
		to, _ = netip.AddrFromSlice(ip.DstIP)
	case *layers.IPv6:
		from, _ = netip.AddrFromSlice(ip.SrcIP)
		to, _ = netip.AddrFromSlice(ip.DstIP)
	default:
		return src, dst, false
	}
	return netip.AddrPortFrom(from, srcPort), netip.AddrPortFrom(to, dstPort), true
}

// missing returns the bytes that the capture lacks of an IP packet. The packet's own length tells
// them from those of a trailer of the link. But it may be a lie.
func (f *frame) missing(ci gopacket.CaptureInfo) int {
	cut := min(ci.Length-ci.CaptureLength, math.MaxUint16)
	switch ip := f.ip.(type) {
	case *layers.IPv4:
		cut = min(cut, int(ip.Length)-len(ip.Contents)-len(ip.Payload))
	case *layers.IPv6:
		cut = min(cut, int(ip.Length)-len(ip.Payload))
	}
	return max(cut, 0)
}
