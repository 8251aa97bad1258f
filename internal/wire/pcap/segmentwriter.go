// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"fmt"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// maxSegmentBytes is what a TCP segment over IPv4 can carry.
const maxSegmentBytes = 1<<16 - 1 - 20 - 20

// WriteSegment writes a TCP segment, its payload in as many pieces as it lies in
// memory; s.Payload, Truncated and FrameLen are not looked at.
func (w *Writer) WriteSegment(s *Segment, payload ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.join(payload)
	if len(w.joined) > maxSegmentBytes {
		return fmt.Errorf("pcap: payload of %d bytes is longer than a segment can be", len(w.joined))
	}
	if err := w.encodeSegmentLocked(s); err != nil {
		return err
	}
	return w.putLocked(s.Time)
}

// join puts a payload in one piece.
func (w *Writer) join(payload [][]byte) {
	w.joined = w.joined[:0]
	for _, piece := range payload {
		w.joined = append(w.joined, piece...)
	}
}

// putLocked writes w.frame.
func (w *Writer) putLocked(t time.Time) error {
	frame := w.frame.Bytes()
	w.err = w.ng.WritePacket(gopacket.CaptureInfo{Timestamp: t, CaptureLength: len(frame), Length: len(frame)}, frame)
	if w.err == nil && t.Sub(w.flushed) > flushEvery {
		w.flushed = t
		w.err = w.ng.Flush()
	}
	return w.err
}

// encodeSegmentLocked puts the headers before w.joined, into w.frame.
func (w *Writer) encodeSegmentLocked(s *Segment) error {
	from, to := s.Src.Addr().Unmap().WithZone(""), s.Dst.Addr().Unmap().WithZone("")
	tcp := layers.TCP{
		SrcPort: layers.TCPPort(s.Src.Port()), DstPort: layers.TCPPort(s.Dst.Port()), Seq: s.Seq, Ack: s.Ack,
		SYN: s.SYN, FIN: s.FIN, RST: s.RST, ACK: s.HasAck, PSH: len(w.joined) > 0, Window: 1<<16 - 1,
	}
	var network interface {
		gopacket.NetworkLayer
		gopacket.SerializableLayer
	}
	switch {
	case from.Is4() && to.Is4():
		network = &layers.IPv4{
			Version: 4, Flags: layers.IPv4DontFragment, TTL: hopLimit, Protocol: layers.IPProtocolTCP,
			SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
		}
	case from.Is6() && to.Is6():
		network = &layers.IPv6{
			Version: 6, HopLimit: hopLimit, NextHeader: layers.IPProtocolTCP,
			SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
		}
	default:
		return ErrFamily
	}
	if err := tcp.SetNetworkLayerForChecksum(network); err != nil {
		return err
	}
	return gopacket.SerializeLayers(w.frame, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		network, &tcp, gopacket.Payload(w.joined))
}
