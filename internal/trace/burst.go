// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"bytes"
	"iter"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// A host's own capture shows bursts that its interface cuts into datagrams, and those that it has
// joined for a receiver, as one frame. All datagrams of a burst but the last have the same size.

// maxCuts bounds the sizes of a burst's datagrams that are tried.
const maxCuts = 16

// RoCE returns the datagrams of RoCEv2 in a frame: one, or those of a burst.
func RoCE(d *pcap.Datagram) iter.Seq[*pcap.Datagram] {
	var p roce.Packet
	if !d.Truncated && (p.Parse(d.Payload) != roce.WellFormed || !d.VerifyICRC()) {
		return Cut(d, CutRoCE(d))
	}
	return Cut(d, 0)
}

// TRP returns the datagrams of TRP in a frame: one, or those of a burst.
func TRP(d *pcap.Datagram) iter.Seq[*pcap.Datagram] {
	var p trp.Packet
	if !d.Truncated && p.Parse(d.Payload) == trp.WellFormed {
		return Cut(d, CutTRP(d, &p))
	}
	return Cut(d, 0)
}

// Cut returns the datagrams of a frame, each of n bytes and the last perhaps shorter; the frame
// itself for 0. Their IPv4 identifications count up. Each is valid until the next one.
func Cut(d *pcap.Datagram, n int) iter.Seq[*pcap.Datagram] {
	return func(yield func(*pcap.Datagram) bool) {
		if n == 0 {
			yield(d)
			return
		}
		one, left := *d, d.Payload
		for ; len(left) > 0; one.IPID++ {
			one.Payload = left[:min(n, len(left))]
			left = left[len(one.Payload):]
			one.FrameLen = d.FrameLen - len(d.Payload) + len(one.Payload)
			if !yield(&one) {
				return
			}
		}
	}
}

// CutRoCE returns the size of the first datagram of a burst of RoCEv2, whose ICRC is right, or 0.
// All are to the same queue pair.
func CutRoCE(d *pcap.Datagram) int {
	const least = roce.BTHBytes + roce.ICRCBytes
	tries := 0
	for at, p := least, d.Payload; at+least <= len(p) && tries < maxCuts; at += 4 {
		next := p[at:]
		if !bytes.Equal(next[2:4], p[2:4]) || !bytes.Equal(next[5:8], p[5:8]) {
			continue // P_Key, destination QP
		}
		tries++
		one := *d
		if one.Payload = p[:at]; one.VerifyICRC() {
			return at
		}
	}
	return 0
}

// CutTRP returns the size of the first datagram of a burst of TRP, p, or 0. The next one has the
// following PSN, and a DDP segment.
func CutTRP(d *pcap.Datagram, p *trp.Packet) int {
	if p.Opcode != trp.Data {
		return 0
	}
	h := p.Header
	h.PSN++
	next := h.Append(nil)
	for at, tries := trp.HeaderBytes, 0; tries < maxCuts; tries++ {
		i := bytes.Index(d.Payload[at:], next)
		if i < 0 {
			break
		}
		at += i
		segment, _, ok := iwarp.ParseHeader(d.Payload[at+trp.HeaderBytes:])
		if ok && segment.DV == iwarp.DDPVersion && segment.RV == iwarp.RDMAPVersion {
			return at
		}
		at++
	}
	return 0
}
