// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// vectors were written by hand, field by field, from the tables of the format,
// not by the code under test.
var vectors = []struct {
	name   string
	bytes  string
	packet Packet
}{
	{
		"first segment: an untagged, last, RDMAP SEND of three bytes",
		"00000000" + // psn 0
			"00000000" + // ack_psn 0
			"0000" + // opcode 0, reserved 0
			"41" + "43" + "00000000" + // DDP untagged|last|version 1, RDMAP version 1|SEND, invalidate STag
			"00000000" + "00000001" + "00000000" + // QN 0, MSN 1, MO 0
			"616263",
		Packet{Header: Header{0, 0, Data}, Payload: unhex("4143" + "00000000" + "00000000" + "00000001" + "00000000" + "616263")},
	},
	{
		"tagged segment in mid-stream",
		"00010203" + "a0b0c0d0" + "0000" + "c140" + "11223344" + "0000000102030405" + "ff",
		Packet{Header: Header{0x00010203, 0xa0b0c0d0, Data}, Payload: unhex("c140112233440000000102030405ff")},
	},
	{
		"pure ACK: the PSN is the next one, not consumed",
		"00000007" + "0000000c" + "0000",
		Packet{Header: Header{7, 12, Data}, Payload: []byte{}},
	},
	{
		"request as urdma sends it: private data of four bytes",
		"00000000" + "00000000" + "1000" + // trp_req
			"0004" + "0010" + "0008" + // pd_len 4, ird 16, ord 8
			"70696e67",
		Packet{Header: Header{Opcode: Request}, Setup: Setup{IRD: 16, ORD: 8, PrivateData: []byte("ping")}},
	},
	{
		"request with a window of 1024 datagrams",
		"00000000" + "00000400" + "1000" + "0000" + "0001" + "0080",
		Packet{Header: Header{0, 1024, Request}, Setup: Setup{IRD: 1, ORD: 128, PrivateData: []byte{}}},
	},
	{
		"accept",
		"00000000" + "00000000" + "2000" + "0001" + "0008" + "0010" + "00",
		Packet{Header: Header{Opcode: Accept}, Setup: Setup{IRD: 8, ORD: 16, PrivateData: []byte{0}}},
	},
	{
		"reject as urdma answers what it cannot read",
		"00000000" + "00000000" + "3000" + "0000" + "0000" + "0000",
		Packet{Header: Header{Opcode: Reject}, Setup: Setup{PrivateData: []byte{}}},
	},
	{
		"fin after 0x1ff segments, 2^32-1 received",
		"000001ff" + "ffffffff" + "4000",
		Packet{Header: Header{0x1ff, 0xffffffff, FIN}},
	},
	{
		"sack of 5, 6, 7 and 8",
		"00000005" + "00000009" + "5000",
		Packet{Header: Header{5, 9, SACK}},
	},
	{
		"sack across the wrap",
		"fffffffe" + "00000001" + "5000",
		Packet{Header: Header{0xfffffffe, 1, SACK}},
	},
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		b := unhex(v.bytes)
		var p Packet
		if m := p.Parse(b); m != WellFormed {
			t.Errorf("%s: %v", v.name, m)
		}
		if !reflect.DeepEqual(p, v.packet) {
			t.Errorf("%s:\n got %+v\nwant %+v", v.name, p, v.packet)
		}
		if got := v.packet.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%s:\n got %x\nwant %x", v.name, got, b)
		}
		if got := v.packet.Bytes(); got != len(b) {
			t.Errorf("%s: %d bytes, want %d", v.name, got, len(b))
		}
	}
}

// The low 12 bits of the last field are nobody's: urdma masks them away.
func TestReservedBitsAreIgnored(t *testing.T) {
	for _, v := range vectors {
		b := unhex(v.bytes)
		b[8] |= 0x0f
		b[9] = 0xff
		var p Packet
		if m := p.Parse(b); m != WellFormed || p.Opcode != v.packet.Opcode {
			t.Errorf("%s: %v, %v", v.name, m, p.Opcode)
		}
	}
}

// A shorter segment is a segment too: only UDP knows where it ends. So a prefix
// of Data must fail within the header, and of everything else anywhere.
func TestPrefixesFail(t *testing.T) {
	for _, v := range vectors {
		b := unhex(v.bytes)
		n := len(b)
		if v.packet.Opcode == Data {
			n = HeaderBytes
		}
		for i := range n {
			var p Packet
			if m := p.Parse(b[:i:i]); m == WellFormed {
				t.Errorf("%s: the first %d bytes parse", v.name, i)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	header := "00000000" + "00000000"
	for _, c := range []struct {
		name, bytes string
		want        Malformed
	}{
		{"nothing", "", TooShort},
		{"nine bytes", header + "00", TooShort},
		{"opcode 6", header + "6000", BadOpcode},
		{"opcode 15", header + "f000", BadOpcode},
		{"the old design's flags", header + "8001" + "00", BadOpcode},
		{"request without parameters", header + "1000", ShortSetup},
		{"five bytes of them", header + "1000" + "0000000000", ShortSetup},
		{"513 bytes of private data", header + "1000" + "0201" + "00000000" + strings.Repeat("00", 513), LongPrivateData},
		{"a length of 65535", header + "2000" + "ffff" + "00000000", LongPrivateData},
		{"one byte missing", header + "2000" + "0002" + "00000000" + "00", BadLength},
		{"one byte too many", header + "3000" + "0000" + "00000000" + "00", BadLength},
		{"fin with a byte", header + "4000" + "00", TrailingBytes},
		{"sack with a segment", "0000000000000001" + "5000" + "4143", TrailingBytes},
		{"sack of nothing", "0000000500000005" + "5000", EmptyRange},
		{"sack backwards", "0000000500000004" + "5000", EmptyRange},
		{"sack of half of all", "0000000080000000" + "5000", EmptyRange},
		{"512 bytes of private data", header + "1000" + "0200" + "00000000" + strings.Repeat("00", 512), WellFormed},
	} {
		var p Packet
		if got := p.Parse(unhex(c.bytes)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRange(t *testing.T) {
	r := Range{5, 9}
	if got := r.Header().Append(nil); !bytes.Equal(got, unhex("00000005000000095000")) {
		t.Errorf("%x", got)
	}
	if got := r.Header().Range(); got != r {
		t.Errorf("%v", got)
	}
}

func TestSerialArithmetic(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		want int32
	}{{1, 0, 1}, {0, 1, -1}, {0, 0xffffffff, 1}, {0xffffffff, 0, -1}, {0x80000000, 0, -1 << 31}, {0x7fffffff, 0, 1<<31 - 1}} {
		if got := c.p.Diff(c.q); got != c.want {
			t.Errorf("%#x - %#x = %d, want %d", c.p, c.q, got, c.want)
		}
		if got := c.p.After(c.q); got != (c.want > 0) {
			t.Errorf("%#x after %#x: %v", c.p, c.q, got)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	b := unhex(vectors[0].bytes)
	out := make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(100, func() {
		var p Packet
		p.Parse(b)
		out = p.Append(out[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzPacket parses anything. A well-formed packet must encode to the same bytes once the reserved
// bits are zero, and name no byte it did not have.
func FuzzPacket(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(v.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		m := p.Parse(b)
		if m >= NumMalformed || m.String() == "unknown" {
			t.Fatalf("verdict %d", m)
		}
		if m != WellFormed {
			return
		}
		if p.Opcode.String() == "unknown" {
			t.Fatalf("well formed, and of opcode %d", p.Opcode)
		}
		want := bytes.Clone(b)
		want[8] &= 0xf0
		want[9] = 0
		if got := p.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("%v\n got %x\nwant %x", p.Opcode, got, want)
		}
	})
}
