// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

const (
	writeBufferBytes = 1 << 16
	maxPayloadBytes  = 1<<16 - 1 - 20 - 8 // what IPv4 can carry
	hopLimit         = 64
)

// Writer writes datagrams and TCP segments to a pcapng stream. All methods may be called from
// several goroutines; frames stand in the file in the order the calls got the
// lock. The first error of the stream is kept: later calls return it and write
// nothing.
type Writer struct {
	mu      sync.Mutex
	ng      *pcapgo.NgWriter
	closer  io.Closer
	frame   gopacket.SerializeBuffer // reused
	joined  []byte                   // the payload in one piece, reused
	flushed time.Time                // by the clock of the packets
	err     error
}

// NewWriter returns a Writer to w, which Close closes if it can be closed. device is
// the name that Wireshark shows for the interface. Writes are buffered: see Flush.
func NewWriter(w io.Writer, device string) (*Writer, error) {
	ng, err := pcapgo.NewNgWriterInterface(
		bufio.NewWriterSize(w, writeBufferBytes),
		pcapgo.NgInterface{Name: device, OS: runtime.GOOS, LinkType: layers.LinkTypeRaw},
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "verbena"}},
	)
	if err != nil {
		return nil, err
	}
	closer, _ := w.(io.Closer)
	return &Writer{ng: ng, closer: closer, frame: gopacket.NewSerializeBuffer()}, nil
}

// ErrFamily is returned for a datagram between an IPv4 and an IPv6 address.
var ErrFamily = errors.New("pcap: source and destination are of different address families")

// Write writes one datagram: a UDP payload from BTH to ICRC, in as many pieces
// as it lies in memory. ipID is the IPv4 identification for which the ICRC was
// computed. Don't Fragment is set; the UDP checksum is left 0 in IPv4, as
// RoCEv2 does, and computed in IPv6, where 0 would be reported as a fault.
func (w *Writer) Write(t time.Time, src, dst netip.AddrPort, ipID uint16, payload ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.join(payload)
	if len(w.joined) > maxPayloadBytes {
		return fmt.Errorf("pcap: payload of %d bytes is longer than a datagram can be", len(w.joined))
	}
	if err := w.encodeLocked(src, dst, ipID); err != nil {
		return err
	}
	return w.putLocked(t)
}

// flushEvery bounds what a capture of a process that is killed lacks.
const flushEvery = 250 * time.Millisecond

// encodeLocked puts the headers before w.joined, into w.frame.
func (w *Writer) encodeLocked(src, dst netip.AddrPort, ipID uint16) error {
	from, to := src.Addr().Unmap().WithZone(""), dst.Addr().Unmap().WithZone("")
	udp := layers.UDP{
		SrcPort: layers.UDPPort(src.Port()),
		DstPort: layers.UDPPort(dst.Port()),
		Length:  uint16(8 + len(w.joined)),
	}
	switch {
	case from.Is4() && to.Is4():
		ip := layers.IPv4{
			Version: 4, Id: ipID, Flags: layers.IPv4DontFragment, TTL: hopLimit, Protocol: layers.IPProtocolUDP,
			SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
		}
		// In two steps: the IP checksum is wanted, the UDP checksum is not.
		if err := gopacket.SerializeLayers(w.frame, gopacket.SerializeOptions{}, &udp, gopacket.Payload(w.joined)); err != nil {
			return err
		}
		return ip.SerializeTo(w.frame, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true})
	case from.Is6() && to.Is6():
		ip := layers.IPv6{
			Version: 6, HopLimit: hopLimit, NextHeader: layers.IPProtocolUDP,
			SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
		}
		if err := udp.SetNetworkLayerForChecksum(&ip); err != nil {
			return err
		}
		return gopacket.SerializeLayers(w.frame, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&ip, &udp, gopacket.Payload(w.joined))
	}
	return ErrFamily
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.ng.Flush()
	}
	return w.err
}

// ErrClosed is returned by calls that follow Close.
var ErrClosed = errors.New("pcap: writer is closed")

// Close flushes, and closes what the Writer writes to. It returns the first
// error that any call met.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closer != nil && w.err != ErrClosed {
		if cerr := w.closer.Close(); err == nil {
			err = cerr
		}
	}
	w.err = ErrClosed
	return err
}
