// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// maxCuts bounds the sizes of a burst's datagrams that are tried.
const maxCuts = 16

// burst takes the datagrams of a frame, each of n bytes and the last perhaps shorter. A host's own
// capture shows bursts so that its interface cuts, and those that it has joined for a receiver.
// Their IPv4 identifications count up.
func (b *builder) burst(d *pcap.Datagram, n int, take func(*pcap.Datagram)) {
	one, left := *d, d.Payload
	for ; len(left) > 0; one.IPID++ {
		one.Payload = left[:min(n, len(left))]
		left = left[len(one.Payload):]
		one.FrameLen = d.FrameLen - len(d.Payload) + len(one.Payload)
		take(&one)
		b.comment = ""
		b.fields.reset()
	}
}

// cutRoCE returns the size of the first datagram of a burst of RoCEv2, whose ICRC is right, or 0.
// All are to the same queue pair.
func cutRoCE(d *pcap.Datagram) int {
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

// cutTRP returns the size of the first datagram of a burst of TRP, or 0. The next one has the
// following PSN, and a DDP segment.
func cutTRP(d *pcap.Datagram, p *trp.Packet) int {
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
