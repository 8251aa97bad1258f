// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// pcapngMagic is the type of a pcapng file's first block, the same in either
// byte order.
const pcapngMagic = 0x0a0d0d0a

// Link types of raw IP that BSD systems write instead of layers.LinkTypeRaw.
const (
	linkTypeRawBSD     layers.LinkType = 12
	linkTypeRawOpenBSD layers.LinkType = 14
)

// Reader yields the RoCEv2 datagrams of a capture and, on request, all others
// and the TCP segments, in which iWARP may be.
type Reader struct {
	// OnCall is called for each verbs call of the capture, within NextPacket and in the file's
	// order. Frame is the call's number then. Nil: calls are passed over.
	OnCall func(c pcap.Call)

	source source
	closer io.Closer
	frames int
}

// source is a capture file in either format.
type source interface {
	ReadPacketData() (data []byte, ci gopacket.CaptureInfo, err error)
	LinkType() layers.LinkType
}

// Open opens a capture file. The error names the file and the reason.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.closer = f
	return r, nil
}

// ErrFormat is returned for a file that is neither pcap nor pcapng.
var ErrFormat = errors.New("not a pcap or pcapng file")

// NewReader returns a Reader of a pcap (also compressed by gzip) or pcapng
// stream.
func NewReader(r io.Reader) (*Reader, error) {
	b := bufio.NewReader(r)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, ErrFormat
	}
	out := &Reader{}
	var s source
	if binary.BigEndian.Uint32(magic) == pcapngMagic {
		s, err = pcapgo.NewNgReader(&journal{in: b, entry: out.entry},
			pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	} else {
		s, err = pcapgo.NewReader(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	out.source = s
	return out, nil
}

// Next returns the next datagram sent to the RoCEv2 port. The error is io.EOF
// at the end of the capture; any other says that the file is damaged or cut
// short.
func (r *Reader) Next() (pcap.Datagram, error) {
	for {
		d, _, err := r.NextPacket()
		if err != nil {
			return pcap.Datagram{}, err
		}
		if d != nil && d.Dst.Port() == roce.Port {
			return *d, nil
		}
	}
}

// NextPacket returns the next UDP datagram, to whatever port, or, the other
// result being nil, the next TCP segment. Errors are those of Next.
func (r *Reader) NextPacket() (*pcap.Datagram, *pcap.Segment, error) {
	for {
		data, ci, comment, direction, err := r.read()
		if err == io.EOF {
			return nil, nil, io.EOF
		}
		if err != nil {
			return nil, nil, fmt.Errorf("frame %d: %w", r.frames+1, err)
		}
		r.frames++
		p := gopacket.NewPacket(data, linkType(r.source, ci),
			gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		if d, ok := datagram(p); ok {
			d.Time = ci.Timestamp
			d.FrameLen = ci.Length
			d.Truncated = d.Truncated || ci.CaptureLength < ci.Length
			d.Missing = missing(p.NetworkLayer(), ci)
			d.Comment, d.Direction = comment, direction
			return &d, nil, nil
		}
		if s, ok := segment(p); ok {
			s.Time = ci.Timestamp
			s.FrameLen = ci.Length
			s.Truncated = s.Truncated || ci.CaptureLength < ci.Length
			s.Missing = missing(p.NetworkLayer(), ci)
			s.Comment, s.Direction = comment, direction
			return nil, &s, nil
		}
	}
}

// read returns the next frame, its comments, joined by newlines, and its direction. The format pcap
// has neither.
func (r *Reader) read() (data []byte, ci gopacket.CaptureInfo, comment string, way pcap.Direction,
	err error) {
	if ng, ok := r.source.(*pcapgo.NgReader); ok {
		var o pcapgo.NgPacketOptions
		data, ci, o, err = ng.ReadPacketDataWithOptions()
		if o.Flags != nil {
			switch o.Flags.Direction {
			case pcapgo.NgEpbFlagDirectionInbound:
				way = pcap.Inbound
			case pcapgo.NgEpbFlagDirectionOutbound:
				way = pcap.Outbound
			}
		}
		return data, ci, strings.Join(o.Comments, "\n"), way, err
	}
	data, ci, err = r.source.ReadPacketData()
	return data, ci, "", way, err
}

// entry takes an entry of a journal, which is a frame to Wireshark.
func (r *Reader) entry(b []byte) {
	r.frames++
	if r.OnCall == nil {
		return
	}
	if c, ok := pcap.ParseCall(b); ok {
		r.OnCall(c)
	}
}

// Frame returns the number of the frame that Next returned last, from 1. Blocks of systemd's
// journal count, as they do in Wireshark.
func (r *Reader) Frame() int { return r.frames }

// Close closes the file that Open opened.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// linkType returns a frame's link type: in pcapng every interface has its own.
func linkType(s source, ci gopacket.CaptureInfo) layers.LinkType {
	t := s.LinkType()
	if len(ci.AncillaryData) > 0 {
		if own, ok := ci.AncillaryData[0].(layers.LinkType); ok {
			t = own
		}
	}
	if t == linkTypeRawBSD || t == linkTypeRawOpenBSD {
		return layers.LinkTypeRaw
	}
	return t
}

// datagram takes a frame apart; ok is false if it is not UDP, or a fragment.
func datagram(p gopacket.Packet) (d pcap.Datagram, ok bool) {
	udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok {
		return pcap.Datagram{}, false
	}
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		d.IPID, d.TrafficClass, d.HopLimit = ip.Id, ip.TOS, ip.TTL
		d.DontFragment = ip.Flags&layers.IPv4DontFragment != 0
	case *layers.IPv6:
		d.TrafficClass, d.HopLimit = ip.TrafficClass, ip.HopLimit
		d.DontFragment = true
	}
	d.Src, d.Dst, ok = addresses(p, uint16(udp.SrcPort), uint16(udp.DstPort))
	d.Payload = udp.Payload
	d.Truncated = p.Metadata().Truncated
	return d, ok
}

// addresses returns where an IP packet comes from and goes to.
func addresses(p gopacket.Packet, srcPort, dstPort uint16) (src, dst netip.AddrPort, ok bool) {
	var from, to netip.Addr
	switch ip := p.NetworkLayer().(type) {
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
func missing(ip gopacket.NetworkLayer, ci gopacket.CaptureInfo) int {
	cut := min(ci.Length-ci.CaptureLength, math.MaxUint16)
	switch ip := ip.(type) {
	case *layers.IPv4:
		cut = min(cut, int(ip.Length)-len(ip.Contents)-len(ip.Payload))
	case *layers.IPv6:
		cut = min(cut, int(ip.Length)-len(ip.Payload))
	}
	return max(cut, 0)
}

// segment takes a frame apart; ok is false if it is not TCP, or a fragment.
func segment(p gopacket.Packet) (s pcap.Segment, ok bool) {
	tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !ok {
		return pcap.Segment{}, false
	}
	s.Src, s.Dst, ok = addresses(p, uint16(tcp.SrcPort), uint16(tcp.DstPort))
	s.Seq, s.SYN, s.FIN, s.RST = tcp.Seq, tcp.SYN, tcp.FIN, tcp.RST
	s.HasAck, s.Ack = tcp.ACK, tcp.Ack
	s.Payload = tcp.Payload
	s.Truncated = p.Metadata().Truncated
	return s, ok
}
