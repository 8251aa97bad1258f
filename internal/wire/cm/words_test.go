// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"bytes"
	"net/netip"
	"testing"
)

// The right column is tshark 4.0.17's text after "RRoCE 322 " for a MAD of each attribute.
func TestDescribeSaysWhatWiresharkSays(t *testing.T) {
	for attr, want := range map[Attribute]string{
		0x01: "CM: ClassPortInfo", AttrREQ: "CM: ConnectRequest", AttrMRA: "CM: MsgRcptAck", AttrREJ: "CM: ConnectReject",
		AttrREP: "CM: ConnectReply", AttrRTU: "CM: ReadyToUse", AttrDREQ: "CM: DisconnectRequest", AttrDREP: "CM: DisconnectReply",
		AttrSIDRREQ: "CM: ServiceIDResReq", AttrSIDRREP: "CM: ServiceIDResReqResp", AttrLAP: "CM: LoadAlternatePath",
		AttrAPR: "CM: AlternatePathResponse", 0x1b: "CM: (Unknown CM Attribute)",
	} {
		mad := append(NewHeader(attr, 7).Append(nil), make([]byte, DataSize)...)
		if got := Describe(mad); got != want {
			t.Errorf("attribute %#x: %q, want %q", uint16(attr), got, want)
		}
		if got := Describe(mad[:MADSize-1]); got != "CM: malformed" {
			t.Errorf("a short MAD: %q", got)
		}
	}
	other := NewHeader(AttrREQ, 0)
	other.Class = 3
	if got := Describe(append(other.Append(nil), make([]byte, DataSize)...)); got != "MAD of class 0x03" {
		t.Errorf("another class: %q", got)
	}
}

func TestIPHeaderRoundTripAndPrefixesFail(t *testing.T) {
	for _, h := range []IPHeader{
		{Port: 0xb510, Src: netip.MustParseAddr("10.77.0.3"), Dst: netip.MustParseAddr("10.77.0.2")},
		{Port: 1, Src: netip.MustParseAddr("fd77::3"), Dst: netip.MustParseAddr("fd77::2")},
	} {
		b := h.Append(nil)
		got, rest, ok := ParseIPHeader(append(bytes.Clone(b), 'x'))
		if !ok || got != h || string(rest) != "x" {
			t.Errorf("%+v became %+v, %q, %v", h, got, rest, ok)
		}
		for n := range IPHeaderSize {
			if _, _, ok := ParseIPHeader(b[:n]); ok {
				t.Errorf("%d bytes parse", n)
			}
		}
	}
	b := IPHeader{Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback()}.Append(nil)
	b[1] = 0x50
	if _, _, ok := ParseIPHeader(b); ok {
		t.Error("IP version 5 parses")
	}
	b[0], b[1] = 1, 0x60
	if _, _, ok := ParseIPHeader(b); ok {
		t.Error("header version 1 parses")
	}
}

func FuzzIPHeader(f *testing.F) {
	for _, mad := range capturedMADs(f) {
		if h, data, _ := ParseHeader(mad); h.Attribute == AttrREQ {
			f.Add(data[DataSize-REQPrivateSize:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _, ok := ParseIPHeader(b)
		if !ok {
			return
		}
		again, _, ok := ParseIPHeader(h.Append(nil))
		if !ok || again != h {
			t.Errorf("%+v became %+v, %v", h, again, ok)
		}
	})
}

func TestServiceIDs(t *testing.T) {
	for _, c := range []struct {
		ps   PortSpace
		port uint16
		want string
	}{
		{PortSpaceTCP, 7174, "0x0000000001061c06"},
		{PortSpaceUDP, 1, "0x0000000001110001"},
		{PortSpaceIB, 0xffff, "0x00000000013fffff"},
		{PortSpaceIPoIB, 2, "0x0000000000020002"},
	} {
		s := NewServiceID(c.ps, c.port)
		ps, ok := s.PortSpace()
		if s.String() != c.want || ps != c.ps || !ok || s.Port() != c.port {
			t.Errorf("%v port %d: %v, back %v %v %d", c.ps, c.port, s, ps, ok, s.Port())
		}
	}
	if ps, ok := ServiceID(0x1_0000_0106_1c06).PortSpace(); ok {
		t.Errorf("a service id of no port space is of %v", ps)
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]Reason{}
	for r := RejNoQP; r <= RejVendorOption; r++ {
		s := r.String()
		if old, dup := seen[s]; dup {
			t.Errorf("%d and %d are both %q", old, r, s)
		}
		seen[s] = r
	}
	if Reason(34).String() != "reason 34" || Reason(999).String() != "reason 999" {
		t.Error("reasons without a name need their number")
	}
}
