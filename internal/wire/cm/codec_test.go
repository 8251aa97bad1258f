// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// reencode parses the data of a message and writes it again.
func reencode(a Attribute, data []byte) (out, rest []byte, ok bool) {
	switch a {
	case AttrREQ:
		m, rest, ok := ParseREQ(data)
		return m.Append(nil), rest, ok
	case AttrMRA:
		m, rest, ok := ParseMRA(data)
		return m.Append(nil), rest, ok
	case AttrREJ:
		m, rest, ok := ParseREJ(data)
		return m.Append(nil), rest, ok
	case AttrREP:
		m, rest, ok := ParseREP(data)
		return m.Append(nil), rest, ok
	case AttrRTU:
		m, rest, ok := ParseRTU(data)
		return m.Append(nil), rest, ok
	case AttrDREQ:
		m, rest, ok := ParseDREQ(data)
		return m.Append(nil), rest, ok
	case AttrDREP:
		m, rest, ok := ParseDREP(data)
		return m.Append(nil), rest, ok
	case AttrSIDRREQ:
		m, rest, ok := ParseSIDRREQ(data)
		return m.Append(nil), rest, ok
	case AttrSIDRREP:
		m, rest, ok := ParseSIDRREP(data)
		return m.Append(nil), rest, ok
	case AttrLAP:
		m, rest, ok := ParseLAP(data)
		return m.Append(nil), rest, ok
	case AttrAPR:
		m, rest, ok := parseAPR(data)
		return m.Append(nil), rest, ok
	}
	panic(fmt.Sprintf("no codec for attribute %v", a))
}

// reserved lists the bits of each message that have no meaning, by byte of the data: an encoder
// must leave them zero.
var reserved = map[Attribute]map[int]byte{
	AttrREQ: {
		4: 0xff, 24: 0xff, 25: 0xff, 26: 0xff, 27: 0xff,
		52 + 38: 0x0f, 52 + 39: 0xc0, 52 + 42: 0x07, 52 + 43: 0x07, 96 + 38: 0x0f, 96 + 39: 0xc0, 96 + 42: 0x07, 96 + 43: 0x07,
	},
	AttrMRA:     {8: 0x3f, 9: 0x07},
	AttrREJ:     {8: 0x3f, 9: 0x01},
	AttrREP:     {27: 0x0f},
	AttrDREQ:    {11: 0xff},
	AttrSIDRREQ: {6: 0xff, 7: 0xff},
	AttrSIDRREP: {6: 0xff, 7: 0xff, 11: 0xff},
	AttrLAP: {
		8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 15: 0x07, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff,
		58: 0x0f, 61: 0xc0, 62: 0x07, 63: 0x07,
	},
	AttrAPR: {10: 0xff, 11: 0xff},
}

func meaningful(a Attribute, data []byte) []byte {
	out := bytes.Clone(data[:DataSize])
	for i, m := range reserved[a] {
		out[i] &^= m
	}
	return out
}

// checkMessage holds the codec's contract on any data of any message.
func checkMessage(t *testing.T, a Attribute, data []byte) {
	t.Helper()
	got, rest, ok := reencode(a, data)
	if ok != (len(data) >= DataSize) {
		t.Fatalf("%v: %d bytes: ok = %v", a, len(data), ok)
	}
	if !ok {
		if len(rest) != len(data) {
			t.Errorf("%v: a failed parse took %d bytes", a, len(data)-len(rest))
		}
		return
	}
	if len(rest) != len(data)-DataSize {
		t.Errorf("%v: rest has %d bytes of %d", a, len(rest), len(data))
	}
	if want := meaningful(a, data); !bytes.Equal(got, want) {
		t.Errorf("%v: encodes to\n%x\nwant\n%x", a, got, want)
	}
}

func TestMessagesReencodeAndPrefixesFail(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for a := AttrREQ; a <= AttrAPR; a++ {
		data := make([]byte, DataSize+3)
		for range 50 {
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			checkMessage(t, a, data)
		}
		for n := range DataSize {
			checkMessage(t, a, data[:n])
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	h := Header{
		BaseVersion: 1, Class: 7, ClassVersion: 2, Method: 3, Status: 0x1c, ClassSpecific: 0x1234,
		TransactionID: 0x0123456789abcdef, Attribute: AttrLAP, Modifier: 0xfeedbeef,
	}
	b := h.Append(nil)
	got, rest, ok := ParseHeader(append(b, 9))
	if !ok || got != h || len(rest) != 1 {
		t.Errorf("got %+v, %d bytes rest, %v", got, len(rest), ok)
	}
	for n := range HeaderSize {
		if _, _, ok := ParseHeader(b[:n]); ok {
			t.Errorf("a header of %d bytes parses", n)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, mad := range capturedMADs(f) {
		f.Add(uint8(mad[17]), mad[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, attr uint8, data []byte) {
		if a := Attribute(attr); a.Valid() {
			checkMessage(t, a, data)
		}
	})
}

func FuzzDescribe(f *testing.F) {
	for _, mad := range capturedMADs(f) {
		f.Add(mad)
	}
	f.Fuzz(func(t *testing.T, mad []byte) {
		if Describe(mad) == "" {
			t.Error("empty description")
		}
		if h, rest, ok := ParseHeader(mad); ok {
			b := h.Append(nil)
			b[18], b[19] = mad[18], mad[19] // reserved
			if !bytes.Equal(append(b, rest...), mad) {
				t.Errorf("header encodes to %x, was %x", b, mad[:HeaderSize])
			}
		}
	})
}

func TestParsingAllocatesNothing(t *testing.T) {
	data, buf := make([]byte, DataSize), make([]byte, 0, MADSize)
	if n := testing.AllocsPerRun(100, func() {
		m, _, _ := ParseREQ(data)
		_, _, _ = ParseIPHeader(m.PrivateData[:])
		buf = m.Append(NewHeader(AttrREQ, 1).Append(buf[:0]))
	}); n != 0 {
		t.Errorf("%v allocations for a REQ", n)
	}
}

// parseAPR reads the data of an APR MAD, which no program of ours receives, and
// returns the bytes behind it.
func parseAPR(b []byte) (a APR, rest []byte, ok bool) {
	if len(b) < DataSize {
		return a, b, false
	}
	a.LocalCommID = binary.BigEndian.Uint32(b)
	a.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	a.InfoLength, a.Status = b[8], APStatus(b[9])
	// b[10:12] reserved
	copy(a.Info[:], b[12:])
	copy(a.PrivateData[:], b[12+APRInfoSize:])
	return a, b[DataSize:], true
}
