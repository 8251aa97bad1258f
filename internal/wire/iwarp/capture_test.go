// SPDX-License-Identifier: BSD-2-Clause

package iwarp_test

import (
	"bytes"
	"strings"
	"testing"

	"verbena/internal/testkit/stream"
	"verbena/internal/wire/iwarp"
)

const captures = "../../../testdata/captures"

// fpdu cuts an FPDU without markers off the front of b.
func fpdu(b []byte) (ulpdu []byte, crc uint32, whole, rest []byte, ok bool) {
	n, after, ok := iwarp.ParseLength(b)
	if !ok || len(after) < n+iwarp.PadBytes(n)+iwarp.CRCBytes {
		return nil, 0, nil, b, false
	}
	ulpdu = after[:n]
	crc, rest, ok = iwarp.ParseCRC(after[n+iwarp.PadBytes(n):])
	return ulpdu, crc, b[:len(b)-len(rest)], rest, ok
}

// encode takes an ULPDU apart as far as its opcode says and puts it together
// again.
func encode(t *testing.T, ulpdu []byte) ([]byte, iwarp.Opcode) {
	h, payload, ok := iwarp.ParseHeader(ulpdu)
	if !ok {
		t.Fatalf("no DDP header: %x", ulpdu)
	}
	info := h.Opcode.Info()
	if !info.Valid || info.Tagged != h.Tagged || !h.Tagged && info.QN != h.QN {
		t.Fatalf("%v tagged=%v QN=%d", h.Opcode, h.Tagged, h.QN)
	}
	out := h.Append(nil)
	switch h.Opcode {
	case iwarp.ReadRequest:
		r, rest, ok := iwarp.ParseReadReq(payload)
		if !ok || len(rest) != 0 {
			t.Fatalf("READ request of %d bytes", len(payload))
		}
		return r.Append(out), h.Opcode
	case iwarp.Terminate:
		m, rest, ok := iwarp.ParseTermMsg(payload)
		if !ok || len(rest) > 3 || !m.Swapped {
			t.Fatalf("Terminate %+v, rest %x", m, rest)
		}
		return append(m.Append(out), rest...), h.Opcode
	}
	return append(out, payload...), h.Opcode
}

// TestCapturesRoundTrip decodes every frame that siw sent and encodes it again
// to the same bytes, the CRC included, which siw leaves 0.
func TestCapturesRoundTrip(t *testing.T) {
	seen := map[iwarp.Opcode]int{}
	frames := 0
	for _, c := range stream.LoadAll(t, captures) {
		for side, b := range c.Sent {
			if !bytes.HasPrefix(b, []byte("MPA ID")) {
				continue // nobody listened, or another program's connection
			}
			f, rest, ok := iwarp.ParseMPAFrame(b)
			if !ok || f.Reply != (side == 1) || f.Revision != 2 || !f.IsEnhanced || f.CRC || f.Markers {
				t.Fatalf("%s: %v %+v", c.Name, ok, f)
			}
			if got := f.Append(nil); !bytes.Equal(got, b[:len(b)-len(rest)]) {
				t.Errorf("%s: %v\n got %x\nwant %x", c.Name, f, got, b[:len(b)-len(rest)])
			}
			if f.Reject != strings.Contains(c.Name, "reject") && side == 1 {
				t.Errorf("%s: reject %v", c.Name, f.Reject)
			}
			frames++
			for len(rest) > 0 {
				ulpdu, crc, whole, after, ok := fpdu(rest)
				if !ok && c.Missing[side] {
					break // siw-write lost 14104 bytes on the way to the file
				}
				if !ok {
					t.Fatalf("%s: %d bytes are no FPDU", c.Name, len(rest))
				}
				if crc != 0 {
					t.Errorf("%s: CRC %#x", c.Name, crc)
				}
				again, o := encode(t, ulpdu)
				seen[o]++
				if pad := iwarp.PadBytes(len(ulpdu)); pad > 0 { // siw leaves old bytes there
					copy(whole[iwarp.LengthBytes+len(ulpdu):], make([]byte, pad))
				}
				if got := iwarp.AppendFPDU(nil, again, false); !bytes.Equal(got, whole) {
					t.Errorf("%s: %v\n got %x\nwant %x", c.Name, o, got, whole)
				}
				rest = after
			}
		}
	}
	if frames < 40 || seen[iwarp.Terminate] < 5 || seen[iwarp.ReadResponse] < 20 || seen[iwarp.SendInvalidate] < 2 {
		t.Errorf("%d set-up frames, segments %v: too few", frames, seen)
	}
	t.Logf("%d set-up frames, segments %v", frames, seen)
}

// TestCapturesTerminates checks the contents of siw's Terminates once its nibbles are put right.
func TestCapturesTerminates(t *testing.T) {
	want := map[string]iwarp.TermError{
		"siw-op-readbad": iwarp.RDMAPInvalidSTag, "siw61-op-readbad": iwarp.RDMAPInvalidSTag, "siw-op-writebad": iwarp.DDPInvalidSTag,
		"siw-op-writeover": iwarp.DDPBounds, "siw-op-toolong": iwarp.DDPNoBuffer, "siw-op-rnr": iwarp.DDPNoBuffer,
	}
	for _, c := range stream.LoadAll(t, captures) {
		name, _, _ := strings.Cut(c.Name, ".")
		e, ok := want[name]
		if !ok {
			continue
		}
		_, rest, _ := iwarp.ParseMPAFrame(c.Sent[1])
		ulpdu, _, _, _, ok := fpdu(rest)
		if !ok {
			t.Fatalf("%s: no FPDU", name)
		}
		h, payload, _ := iwarp.ParseHeader(ulpdu)
		m, _, ok := iwarp.ParseTermMsg(payload)
		if !ok || h.Opcode != iwarp.Terminate || m.TermError != e || !m.Swapped || !m.HasLength || !m.HasDDP || m.HasRead != (e.Layer == iwarp.LayerRDMAP) {
			t.Errorf("%s: %v %+v, want %v", name, ok, m, e)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not seen: %v", want)
	}
}

// TestCapturesPrefixes cuts the first frames of each kind short at every length.
func TestCapturesPrefixes(t *testing.T) {
	seen := map[iwarp.Opcode]bool{}
	for _, c := range stream.LoadAll(t, captures) {
		for _, b := range c.Sent {
			f, rest, _ := iwarp.ParseMPAFrame(b)
			for n := range len(b) - len(rest) {
				if _, r, ok := iwarp.ParseMPAFrame(b[:n]); ok || len(r) != n {
					t.Fatalf("%s: %v of %d bytes is taken from %d", c.Name, f, len(b)-len(rest), n)
				}
				if need, ok := iwarp.MPAFrameLen(b[:n]); !ok || need <= n {
					t.Fatalf("%s: %d bytes need %d, %v", c.Name, n, need, ok)
				}
			}
			for len(rest) > 0 {
				ulpdu, _, whole, after, ok := fpdu(rest)
				if !ok {
					break
				}
				rest = after
				h, payload, _ := iwarp.ParseHeader(ulpdu)
				if seen[h.Opcode] {
					continue
				}
				seen[h.Opcode] = true
				for n := range whole {
					if _, _, _, _, ok := fpdu(whole[:n]); ok {
						t.Errorf("%s: %v is an FPDU after %d of %d bytes", c.Name, h, n, len(whole))
					}
				}
				for n := range h.HeaderBytes() {
					if _, _, ok := iwarp.ParseHeader(ulpdu[:n]); ok {
						t.Errorf("%s: %v has its header after %d bytes", c.Name, h, n)
					}
				}
				if h.Opcode == iwarp.Terminate {
					m, after, _ := iwarp.ParseTermMsg(payload)
					for n := range len(payload) - len(after) {
						if _, _, ok := iwarp.ParseTermMsg(payload[:n]); ok {
							t.Errorf("%s: %v after %d of %d bytes", c.Name, m.TermError, n, len(payload))
						}
					}
				}
			}
		}
	}
}
