// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parsed makes a parser of a header into one of any header.
func parsed[T interface{ Append([]byte) []byte }](parse func([]byte) (T, []byte, bool)) func([]byte) (any, []byte, []byte, bool) {
	return func(b []byte) (any, []byte, []byte, bool) {
		v, rest, ok := parse(b)
		return v, v.Append(nil), rest, ok
	}
}

// TestHeaders holds each header to bytes written out by hand from the figures
// of the RFCs, and every strict prefix of them to a refusal.
func TestHeaders(t *testing.T) {
	control := Control{Tagged: true, Last: true, DV: 1, RV: 1, Opcode: RDMAWrite}
	untagged := func(o Opcode, last bool) Control { return Control{Last: last, DV: 1, RV: 1, Opcode: o} }
	for _, h := range []struct {
		name  string
		bytes string
		parse func(b []byte) (v any, enc []byte, rest []byte, ok bool)
		want  any
	}{
		{"Request, revision 1", "4d504120494420526571204672616d65" + "40" + "01" + "0003" + "616263", parsed(ParseMPAFrame),
			MPAFrame{CRC: true, Revision: 1, PrivateData: []byte("abc")}},
		{"Reply, rejecting", "4d504120494420526570204672616d65" + "a0" + "01" + "0000", parsed(ParseMPAFrame),
			MPAFrame{Reply: true, Markers: true, Reject: true, Revision: 1, PrivateData: []byte{}}},
		{"Request, enhanced", "4d504120494420526571204672616d65" + "50" + "02" + "0005" + "c004" + "4008" + "7a", parsed(ParseMPAFrame),
			MPAFrame{CRC: true, Revision: 2, IsEnhanced: true, Enhanced: Enhanced{PeerToPeer: true, EmptyFPDU: true, IRD: 4, ReadRTR: true, ORD: 8},
				PrivateData: []byte("z")}},
		{"enhanced data", "bfff" + "8001", parsed(ParseEnhanced), Enhanced{PeerToPeer: true, IRD: AnyDepth, WriteRTR: true, ORD: 1}},
		{"marker", "0000" + "0204", parsed(ParseMarker), Marker{FPDUPtr: 0x204}},
		{"control", "c140", parsed(ParseControl), control},
		{"tagged", "c140" + "deadbeef" + "0123456789abcdef", parsed(ParseHeader), Header{Control: control, STag: 0xdeadbeef, TO: 0x0123456789abcdef}},
		{"untagged", "0144" + "cafe0001" + "00000000" + "00000002" + "00000590", parsed(ParseHeader),
			Header{Control: untagged(SendInvalidate, false), STag: 0xcafe0001, MSN: 2, MO: 0x590}},
		{"READ request", "11111111" + "2222222222222222" + "00000bb8" + "33333333" + "4444444444444444", parsed(ParseReadReq),
			ReadReq{SinkSTag: 0x11111111, SinkTO: 0x2222222222222222, Size: 3000, SrcSTag: 0x33333333, SrcTO: 0x4444444444444444}},
		{"atomic request", "00000002" + "00000007" + "11111111" + "2222222222222222" + "3333333333333333" + "ffffffffffffffff" + "4444444444444444" + "00ffffffffffffff",
			parsed(ParseAtomicReq), AtomicReq{Op: CmpSwap, ID: 7, STag: 0x11111111, TO: 0x2222222222222222, AddSwap: 0x3333333333333333, AddSwapMask: ^uint64(0),
				Compare: 0x4444444444444444, CompareMask: ^uint64(0) >> 8}},
		{"atomic response", "00000007" + "fedcba9876543210", parsed(ParseAtomicResp), AtomicResp{ID: 7, Orig: 0xfedcba9876543210}},
		{"immediate data", "00112233" + "00000000", parsed(ParseImmData), ImmData{Data: 0x00112233}},
		{"Terminate, nothing follows", "02ff0000", parsed(ParseTermMsg), TermMsg{TermError: RDMAPUnspecific}},
		{"Terminate of a READ", "0100e000" + "002e" + "4141" + "00000000" + "00000001" + "00000001" + "00000000" +
			"11111111" + "2222222222222222" + "00000bb8" + "33333333" + "4444444444444444", parsed(ParseTermMsg),
			TermMsg{TermError: RDMAPInvalidSTag, HasLength: true, HasDDP: true, HasRead: true, SegmentBytes: 46,
				DDP:  Header{Control: untagged(ReadRequest, true), QN: 1, MSN: 1},
				Read: ReadReq{SinkSTag: 0x11111111, SinkTO: 0x2222222222222222, Size: 3000, SrcSTag: 0x33333333, SrcTO: 0x4444444444444444}}},
		{"Terminate of a WRITE", "1101c000" + "05a2" + "c140" + "deadbeef" + "0123456789abcdef", parsed(ParseTermMsg),
			TermMsg{TermError: DDPBounds, HasLength: true, HasDDP: true, SegmentBytes: 1442, DDP: Header{Control: control, STag: 0xdeadbeef, TO: 0x0123456789abcdef}}},
		{"Terminate, as siw writes it", "21020300" + "0590" + "0143" + "00000000" + "00000000" + "00000001" + "00000000", parsed(ParseTermMsg),
			TermMsg{TermError: DDPNoBuffer, HasLength: true, HasDDP: true, SegmentBytes: 0x590, DDP: Header{Control: untagged(Send, false), MSN: 1}, Swapped: true}},
	} {
		t.Run(h.name, func(t *testing.T) {
			b := unhex(t, h.bytes)
			v, enc, rest, ok := h.parse(append(bytes.Clone(b), 0xaa))
			if !ok || !reflect.DeepEqual(v, h.want) || len(rest) != 1 {
				t.Fatalf("parsed %+v, rest %d, %v\nwant %+v", v, len(rest), ok, h.want)
			}
			if !bytes.Equal(enc, b) {
				t.Errorf("encoded %x, want %x", enc, b)
			}
			for n := range b {
				if _, _, rest, ok := h.parse(b[:n]); ok || len(rest) != n {
					t.Errorf("a prefix of %d bytes was accepted", n)
				}
			}
		})
	}
}

// TestReservedBits holds that reserved bits are not read and not sent, except those that say how
// many segments follow.
func TestReservedBits(t *testing.T) {
	c, _, _ := ParseControl([]byte{0xfd, 0x73})
	if want := (Control{Tagged: true, Last: true, More: MaxMore, DV: 1, RV: 1, Opcode: Send}); c != want || !bytes.Equal(c.Append(nil), []byte{0xfd, 0x43}) {
		t.Errorf("%+v", c)
	}
	if b := NewControl(Send, true).Append(nil); !bytes.Equal(b, []byte{0x41, 0x43}) { // as others are sent it
		t.Errorf("%x", b)
	}
	f, _, ok := ParseMPAFrame(unhex(t, "4d504120494420526571204672616d65"+"0e"+"01"+"0000"))
	if want := (MPAFrame{Revision: 1, PrivateData: []byte{}}); !ok || !reflect.DeepEqual(f, want) {
		t.Errorf("%+v", f)
	}
	m, _, _ := ParseTermMsg([]byte{0, 0, 0x1f, 0xff}) // reserved bits of RFC 5040, but siw's M, D and R
	if _, _, ok := ParseTermMsg([]byte{0, 0, 0x18, 0xff}); !ok || m.HasLength {
		t.Errorf("%+v", m)
	}
}

// TestSetUpFrameRefused has invalid fields of set-up frames.
func TestSetUpFrameRefused(t *testing.T) {
	const req = "4d504120494420526571204672616d65"
	for _, s := range []string{
		"4d504120494420526572204672616d65" + "40010000",                        // another key
		req + "40" + "01" + "0201" + string(bytes.Repeat([]byte("00"), 0x201)), // more private data than may be
		req + "10" + "02" + "0003" + "000000",                                  // enhanced, and no room for it
	} {
		b := unhex(t, s)
		if _, _, ok := ParseMPAFrame(b); ok {
			t.Errorf("%s is taken", s[:40])
		}
		if _, ok := MPAFrameLen(b); ok {
			t.Errorf("%s has a length", s[:40])
		}
	}
	if _, ok := MPAFrameLen([]byte("MPB")); ok {
		t.Error("the first bytes are wrong already")
	}
}

// TestCRC32c checks the vectors of RFC 3720, B.4, in their order on the wire.
func TestCRC32c(t *testing.T) {
	up := make([]byte, 32)
	for i := range up {
		up[i] = byte(i)
	}
	for _, v := range []struct {
		data []byte
		want string
	}{{make([]byte, 32), "aa36918a"}, {bytes.Repeat([]byte{0xff}, 32), "43aba862"}, {up, "4e79dd46"}} {
		if got := AppendCRC(nil, UpdateCRC(0, v.data)); !bytes.Equal(got, unhex(t, v.want)) {
			t.Errorf("CRC of %x: %x, want %s", v.data, got, v.want)
		}
		if got := UpdateCRC(UpdateCRC(0, v.data[:5]), v.data[5:]); got != UpdateCRC(0, v.data) {
			t.Error("two pieces are not one")
		}
	}
}

// TestSizes checks the arithmetic of FPDUs.
func TestSizes(t *testing.T) {
	for n, want := range map[int]int{0: 8, 1: 8, 2: 8, 3: 12, 14: 20, 1442: 1448, MaxULPDU: 65544} {
		if got := FPDUBytes(n); got != want || got != len(AppendFPDU(nil, make([]byte, n), true)) {
			t.Errorf("FPDU of %d: %d, want %d", n, got, want)
		}
	}
	for _, v := range []struct {
		mss     int
		markers bool
		want    int
	}{
		{1448, false, 1442}, {1460, false, 1454}, {1447, false, 1438}, {1448, true, 1430}, {8948, false, 8942}, {65483, false, 65474},
		{70000, false, 65534}, {70000, true, 65014}, {100, false, 128},
	} {
		got := MaxULPDUFor(v.mss, v.markers)
		if got != v.want {
			t.Errorf("MSS %d markers %v: %d, want %d", v.mss, v.markers, got, v.want)
		}
	}
}

// TestAtomicMasks checks Apply against the bit by bit algorithm of RFC 7306.
func TestAtomicMasks(t *testing.T) {
	seed := uint64(1)
	next := func() uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return seed ^ seed>>29 }
	for range 2000 {
		few := next()
		few &= next()
		few &= next()
		r, orig := AtomicReq{AddSwap: next(), AddSwapMask: few, Compare: next(), CompareMask: next()}, next()
		var want, carry uint64
		for bit := range 64 {
			sum := carry + orig>>bit&1 + r.AddSwap>>bit&1
			want |= sum & 1 << bit
			if carry = sum >> 1; r.AddSwapMask>>bit&1 != 0 {
				carry = 0
			}
		}
		if got := r.Apply(orig); got != want {
			t.Fatalf("%+v on %#x: %#x, want %#x", r, orig, got, want)
		}
		r.Op = CmpSwap
		if got := r.Apply(orig); got != orig {
			t.Fatalf("%+v on %#x swapped", r, orig)
		}
		r.Compare = orig&r.CompareMask | ^r.CompareMask
		if got := r.Apply(orig); (got^r.AddSwap)&r.AddSwapMask != 0 || (got^orig)&^r.AddSwapMask != 0 {
			t.Fatalf("%+v on %#x: %#x", r, orig, got)
		}
	}
	if got := (AtomicReq{AddSwap: 5}).Apply(^uint64(0)); got != 4 {
		t.Errorf("plain addition: %d", got)
	}
}

// TestOpcodes looks at all 16.
func TestOpcodes(t *testing.T) {
	valid := 0
	for o := range Opcode(16) {
		i := o.Info()
		if i.Valid {
			valid++
		}
		if i.Valid != (o <= AtomicResponse) || i.Tagged && (i.QN != 0 || i.ConsumesRecv) || i.QN >= NumQN || o.IsSend() && !i.ConsumesRecv {
			t.Errorf("%v: %+v", o, i)
		}
		if (o.String() == "") || !i.Valid && o.String()[:7] != "Unknown" {
			t.Errorf("opcode %d is %q", o, o)
		}
	}
	if valid != 12 {
		t.Errorf("%d opcodes", valid)
	}
}
