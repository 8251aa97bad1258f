// SPDX-License-Identifier: BSD-2-Clause

package steer

import (
	"encoding/binary"
	"errors"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/ether"
)

// frame returns a UDP datagram in an Ethernet frame, over IPv4 or IPv6, with VLAN tags.
func frame(v6 bool, tags ...uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(append(b, 0x81, 0), tag)
	}
	udp := []byte{0, 7, 0, 9, 0, 8, 0, 0}
	if v6 {
		b = append(b, 0x86, 0xdd, 0x6a, 0xb1, 0x23, 0x45, 0, 8+8+8, 0, 64)
		for _, last := range []byte{1, 2} {
			b = append(append(b, 0x20, 1, 0xd, 0xb8), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last)
		}
		b = append(b, 60, 0, 0, 0, 0, 0, 0, 0) // hop-by-hop options
		b = append(b, 17, 0, 0, 0, 0, 0, 0, 0) // destination options
	} else {
		b = append(b, 8, 0, 0x45, 0x28, 0, 28, 0, 0, 0x40, 0, 63, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	}
	return append(b, udp...)
}

// headers parses a frame.
func headers(t *testing.T, f []byte) *ether.Headers {
	h, ok := ether.Parse(f)
	if !ok {
		t.Fatalf("%x is no frame", f)
	}
	return &h
}

var (
	v4  = [4]byte{255, 255, 255, 255}
	mac = [6]byte{255, 255, 255, 255, 255, 255}
	v6  = [16]byte{0: 255, 1: 255, 2: 255, 3: 255, 15: 255}
)

// Each field of each spec selects frames, in the bits of its mask only.
func TestSpecs(t *testing.T) {
	eth := func(v, m ib.FlowEth) ib.FlowSpec { return ib.FlowSpecEth{Val: v, Mask: m} }
	ip4 := func(v, m ib.FlowIPv4) ib.FlowSpec { return ib.FlowSpecIPv4{Val: v, Mask: m} }
	ip6 := func(v, m ib.FlowIPv6) ib.FlowSpec { return ib.FlowSpecIPv6{Val: v, Mask: m} }
	src6 := [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}
	plain, tagged, six := headers(t, frame(false)), headers(t, frame(false, 0x6005, 0x0009)), headers(t, frame(true))
	for _, c := range []struct {
		name string
		spec ib.FlowSpec
		want [3]bool // plain, tagged, IPv6
	}{
		{"destination MAC", eth(ib.FlowEth{DstMAC: [6]byte{2, 5: 1}}, ib.FlowEth{DstMAC: mac}), [3]bool{true, true, true}},
		{"another one", eth(ib.FlowEth{DstMAC: [6]byte{2, 5: 2}}, ib.FlowEth{DstMAC: mac}), [3]bool{}},
		{"another one, masked", eth(ib.FlowEth{DstMAC: [6]byte{2, 5: 2}}, ib.FlowEth{DstMAC: [6]byte{255, 255, 255, 255, 255}}), [3]bool{true, true, true}},
		{"source MAC", eth(ib.FlowEth{SrcMAC: [6]byte{2, 5: 2}}, ib.FlowEth{SrcMAC: mac}), [3]bool{true, true, true}},
		{"EtherType behind the tags", eth(ib.FlowEth{EtherType: 0x800}, ib.FlowEth{EtherType: 0xffff}), [3]bool{true, true, false}},
		{"VLAN identifier", eth(ib.FlowEth{VLANTag: 5}, ib.FlowEth{VLANTag: 0xfff}), [3]bool{false, true, false}},
		{"VLAN priority", eth(ib.FlowEth{VLANTag: 0x6000}, ib.FlowEth{VLANTag: 0xe000}), [3]bool{false, true, false}},
		{"another VLAN", eth(ib.FlowEth{VLANTag: 9}, ib.FlowEth{VLANTag: 0xfff}), [3]bool{}},
		{"any IPv4", ip4(ib.FlowIPv4{}, ib.FlowIPv4{}), [3]bool{true, true, false}},
		{"source IPv4", ip4(ib.FlowIPv4{SrcIP: [4]byte{10, 0, 0, 1}}, ib.FlowIPv4{SrcIP: v4}), [3]bool{true, true, false}},
		{"destination IPv4", ip4(ib.FlowIPv4{DstIP: [4]byte{10, 0, 0, 1}}, ib.FlowIPv4{DstIP: v4}), [3]bool{}},
		{"protocol", ip4(ib.FlowIPv4{Proto: 17}, ib.FlowIPv4{Proto: 255}), [3]bool{true, true, false}},
		{"TOS and TTL", ip4(ib.FlowIPv4{TOS: 0x28, TTL: 63}, ib.FlowIPv4{TOS: 0xfc, TTL: 255}), [3]bool{true, true, false}},
		{"TTL", ip4(ib.FlowIPv4{TTL: 64}, ib.FlowIPv4{TTL: 255}), [3]bool{}},
		{"don't fragment", ip4(ib.FlowIPv4{Flags: 2}, ib.FlowIPv4{Flags: 6}), [3]bool{true, true, false}},
		{"more fragments", ip4(ib.FlowIPv4{Flags: 4}, ib.FlowIPv4{Flags: 4}), [3]bool{}},
		{"source IPv6", ip6(ib.FlowIPv6{SrcIP: src6}, ib.FlowIPv6{SrcIP: v6}), [3]bool{false, false, true}},
		{"destination IPv6", ip6(ib.FlowIPv6{DstIP: src6}, ib.FlowIPv6{DstIP: v6}), [3]bool{}},
		{"flow label, class and hop limit", ip6(ib.FlowIPv6{FlowLabel: 0x12345, TrafficClass: 0xab, HopLimit: 64}, ib.FlowIPv6{FlowLabel: 0xfffff, TrafficClass: 255, HopLimit: 255}), [3]bool{false, false, true}},
		{"next header", ip6(ib.FlowIPv6{NextHdr: 17}, ib.FlowIPv6{NextHdr: 255}), [3]bool{}},
		{"UDP ports", ib.FlowSpecUDP{Val: ib.FlowPorts{DstPort: 9, SrcPort: 7}, Mask: ib.FlowPorts{DstPort: 0xffff, SrcPort: 0xffff}}, [3]bool{true, true, true}},
		{"UDP port", ib.FlowSpecUDP{Val: ib.FlowPorts{DstPort: 7}, Mask: ib.FlowPorts{DstPort: 0xffff}}, [3]bool{}},
		{"TCP", ib.FlowSpecTCP{}, [3]bool{}},
	} {
		m, err := newMatcher([]ib.FlowSpec{c.spec})
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := [3]bool{m.matches(plain), m.matches(tagged), m.matches(six)}; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A frame whose headers are cut off, or a later fragment, has none of those.
func TestShortFramesHaveNoHeaders(t *testing.T) {
	udp, err := newMatcher([]ib.FlowSpec{ib.FlowSpecUDP{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		f := frame(v6)
		for n := range len(f) - 4 {
			if h, ok := ether.Parse(f[:n]); ok != (n >= 14) || ok && udp.matches(&h) {
				t.Errorf("%d of %d bytes: %v, a UDP header", n, len(f), ok)
			}
		}
	}
	f := frame(false)
	f[14+7] = 1 // the offset
	if udp.matches(headers(t, f)) {
		t.Error("a later fragment has ports")
	}
	f[14+7], f[14+6] = 0, 0x20
	if !udp.matches(headers(t, f)) {
		t.Error("the first fragment has no ports")
	}
}

func rule(t *testing.T, a ib.FlowAttr, to int) *Rule[int] {
	t.Helper()
	r, err := NewRule(&a, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The flow of the lowest priority takes a frame, with those that are equal. Others get the frames
// that are left.
func TestPriorities(t *testing.T) {
	udp, ip := []ib.FlowSpec{ib.FlowSpecUDP{}}, []ib.FlowSpec{ib.FlowSpecIPv4{}}
	unicast, group := frame(false), frame(true)
	group[0] |= 1
	roce := frame(false)
	copy(roce[len(roce)-6:], []byte{0x12, 0xb7})
	for _, c := range []struct {
		name                 string
		rules                []ib.FlowAttr
		unicast, group, roce string
	}{
		{"none", nil, "", "", ""},
		{"by priority", []ib.FlowAttr{{Specs: ip, Priority: 2}, {Specs: udp, Priority: 1}}, "b", "b", "b"},
		{"by age", []ib.FlowAttr{{Specs: ip}, {Specs: udp}}, "a", "b", "a"},
		{"equal ones", []ib.FlowAttr{{Specs: ip}, {Specs: udp}, {Specs: ip}}, "ac", "b", "ac"},
		{"one that does not trap", []ib.FlowAttr{{Specs: ip, Flags: ib.FlowDontTrap}, {Specs: udp, Priority: 1}}, "ab", "b", "ab"},
		{"one that drops", []ib.FlowAttr{{Specs: udp, Priority: 1}, {Specs: append([]ib.FlowSpec{ib.FlowActionDrop{}}, ip...)}}, "b", "a", "b"},
		{"sniffer", []ib.FlowAttr{{Specs: ip}, {Type: ib.FlowSniffer}}, "ba", "b", "ba"},
		{"defaults", []ib.FlowAttr{{Type: ib.FlowAllDefault}, {Type: ib.FlowMCDefault}}, "a", "b", ""},
		{"default for all", []ib.FlowAttr{{Type: ib.FlowAllDefault}, {Specs: ip, Priority: 0xffff}}, "b", "a", "b"},
		{"all frames", []ib.FlowAttr{{}}, "a", "a", "a"},
	} {
		var table *Table[int]
		for i, a := range c.rules {
			var err error
			if table, err = table.With(rule(t, a, i)); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []string{c.unicast, c.group, c.roce} {
			got := ""
			for _, r := range table.Match(nil, headers(t, [][]byte{unicast, group, roce}[i])) {
				got += string(rune('a' + r.To))
			}
			if got != want {
				t.Errorf("%s: frame %d goes to %q, want %q", c.name, i, got, want)
			}
		}
		if n := table.Without(func(r *Rule[int]) bool { return r.To == 0 }).Len(); n != max(len(c.rules)-1, 0) {
			t.Errorf("%s: %d rules are left", c.name, n)
		}
	}
}

func TestRulesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		attr ib.FlowAttr
		want error
	}{
		"unknown type":       {ib.FlowAttr{Type: 4}, ErrInvalid},
		"egress":             {ib.FlowAttr{Flags: 1 << 2}, ErrUnsupported},
		"sniffer that traps": {ib.FlowAttr{Type: ib.FlowSniffer, Flags: ib.FlowDontTrap}, ErrInvalid},
		"default with specs": {ib.FlowAttr{Type: ib.FlowAllDefault, Specs: []ib.FlowSpec{ib.FlowSpecTCP{}}}, ErrInvalid},
		"two of one header":  {ib.FlowAttr{Specs: []ib.FlowSpec{ib.FlowSpecTCP{}, ib.FlowSpecUDP{}}}, ErrInvalid},
		"two actions":        {ib.FlowAttr{Specs: []ib.FlowSpec{ib.FlowActionTag{}, ib.FlowActionDrop{}}}, ErrInvalid},
		"a drop that passes": {ib.FlowAttr{Flags: ib.FlowDontTrap, Specs: []ib.FlowSpec{ib.FlowActionDrop{}}}, ErrInvalid},
		"default that drops": {ib.FlowAttr{Type: ib.FlowAllDefault, Specs: []ib.FlowSpec{ib.FlowActionDrop{}}}, ErrInvalid},
		"no spec":            {ib.FlowAttr{Specs: []ib.FlowSpec{nil}}, ErrInvalid},
	} {
		if _, err := NewRule(&c.attr, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	var table *Table[int]
	for range MaxRules {
		table = &Table[int]{append(table.list(), rule(t, ib.FlowAttr{}, 0))}
	}
	if _, err := table.With(rule(t, ib.FlowAttr{}, 0)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

func (t *Table[T]) list() []*Rule[T] {
	if t == nil {
		return nil
	}
	return t.rules
}

// No frame makes Parse or Match look behind its end.
func FuzzMatch(f *testing.F) {
	f.Add(frame(false))
	f.Add(frame(true))
	f.Add(frame(true, 1, 2, 3))
	m, err := newMatcher([]ib.FlowSpec{ib.FlowSpecEth{Mask: ib.FlowEth{VLANTag: 1}}, ib.FlowSpecIPv4{}, ib.FlowSpecUDP{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := ether.Parse(b[:len(b):len(b)])
		if ok != (len(b) >= 14) {
			t.Fatalf("%d bytes: %v", len(b), ok)
		}
		if !ok {
			return
		}
		m.matches(&h)
		h.IPv6()
		if h.L4 != 0 && (h.L3 == 0 || h.L4 < h.L3+20 || h.L4+4 > len(b)) {
			t.Fatalf("L3 at %d, L4 at %d of %d bytes", h.L3, h.L4, len(b))
		}
	})
}
