// SPDX-License-Identifier: BSD-2-Clause

package iwarp_test

import (
	"bytes"
	"testing"

	"verbena/internal/testkit/stream"
	"verbena/internal/wire/iwarp"
)

// FuzzSetUpFrame parses anything. A set-up frame must encode to the same bytes once the reserved
// bits are zero.
func FuzzSetUpFrame(f *testing.F) {
	for _, c := range stream.LoadAll(f, captures) {
		for _, b := range c.Sent {
			f.Add(b[:min(len(b), 100)])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, ok := iwarp.ParseMPAFrame(b)
		if n, fits := iwarp.MPAFrameLen(b); ok != (fits && n <= len(b)) {
			t.Fatalf("parsed %v, length %d %v of %d", ok, n, fits, len(b))
		}
		if !ok {
			return
		}
		want := bytes.Clone(b[:len(b)-len(rest)])
		want[16] &= 0xf1 // M, C, R, S, and our own kind's bit
		if m.Reply {
			want[16] = b[16] & 0xf2
		}
		if got := m.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("%+v\n got %x\nwant %x", m, got, want)
		}
	})
}

// FuzzSegment parses anything as a DDP segment with its opcode's fields, and compares the encoding
// with the bytes without the reserved bits.
func FuzzSegment(f *testing.F) {
	seen := map[iwarp.Opcode]bool{}
	for _, c := range stream.LoadAll(f, captures) {
		for _, b := range c.Sent {
			_, rest, _ := iwarp.ParseMPAFrame(b)
			for len(rest) > 0 {
				ulpdu, _, _, after, ok := fpdu(rest)
				if !ok {
					break
				}
				if h, _, _ := iwarp.ParseHeader(ulpdu); !seen[h.Opcode] {
					seen[h.Opcode] = true
					f.Add(ulpdu[:min(len(ulpdu), 128)])
				}
				rest = after
			}
		}
	}
	f.Add(iwarp.AtomicReq{Op: iwarp.CmpSwap, ID: 1}.Append(iwarp.Header{Control: iwarp.NewControl(iwarp.AtomicRequest, true), QN: 1, MSN: 1}.Append(nil)))
	f.Add(iwarp.AtomicResp{ID: 1, Orig: 2}.Append(iwarp.Header{Control: iwarp.NewControl(iwarp.AtomicResponse, true), QN: 3, MSN: 1}.Append(nil)))
	f.Add(iwarp.ImmData{Data: 1}.Append(iwarp.Header{Control: iwarp.NewControl(iwarp.Immediate, true), MSN: 1}.Append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, ok := iwarp.ParseHeader(b)
		if !ok {
			return
		}
		want := bytes.Clone(b)
		want[1] &^= 0x30
		if got := append(h.Append(nil), payload...); !bytes.Equal(got, want) {
			t.Fatalf("%v\n got %x\nwant %x", h, got, want)
		}
		var got, rest []byte
		switch h.Opcode {
		case iwarp.ReadRequest:
			var r iwarp.ReadReq
			r, rest, ok = iwarp.ParseReadReq(payload)
			got = r.Append(nil)
		case iwarp.AtomicRequest:
			var r iwarp.AtomicReq
			if r, rest, ok = iwarp.ParseAtomicReq(payload); ok {
				payload = bytes.Clone(payload)
				clear(payload[:3])
				payload[3] &= 15
			}
			got = r.Append(nil)
		case iwarp.AtomicResponse:
			var r iwarp.AtomicResp
			r, rest, ok = iwarp.ParseAtomicResp(payload)
			got = r.Append(nil)
		case iwarp.Terminate:
			var m iwarp.TermMsg
			if m, _, ok = iwarp.ParseTermMsg(payload); !ok {
				return
			}
			// The headers in it have reserved bits of their own: parse our own encoding.
			again, none, ok := iwarp.ParseTermMsg(m.Append(nil))
			if !ok || len(none) != 0 || again != m || len(m.Append(nil)) > iwarp.MaxTermBytes {
				t.Fatalf("%+v\nread again %+v, %v", m, again, ok)
			}
			return
		default:
			return
		}
		if ok && !bytes.Equal(got, payload[:len(payload)-len(rest)]) {
			t.Fatalf("%v\n got %x\nwant %x", h, got, payload)
		}
	})
}
