// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	frame  frame
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
		f := &r.frame
		f.decode(data, linkType(r.source, ci))
		if d, ok := f.datagram(); ok {
			d.Time = ci.Timestamp
			d.FrameLen = ci.Length
			d.Truncated = d.Truncated || ci.CaptureLength < ci.Length
			d.Missing = f.missing(ci)
			d.Comment, d.Direction = comment, direction
			return &d, nil, nil
		}
		if s, ok := f.segment(); ok {
			s.Time = ci.Timestamp
			s.FrameLen = ci.Length
			s.Truncated = s.Truncated || ci.CaptureLength < ci.Length
			s.Missing = f.missing(ci)
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
