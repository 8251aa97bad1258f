// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// ethernet makes a frame with a packet that is written in hexadecimal.
func ethernet(kind uint16, packet string) frame {
	f := append(make(frame, 12), byte(kind>>8), byte(kind))
	b, err := hex.DecodeString(strings.ReplaceAll(packet, " ", ""))
	if err != nil {
		panic(err)
	}
	return append(f, b...)
}

// headerSum is the checksum over an IPv4 header, 0xffff if it is right.
func headerSum(f frame) uint16 {
	sum := uint32(0)
	for ip := f[ethernetHeader : ethernetHeader+ipv4Header]; len(ip) > 0; ip = ip[2:] {
		sum += uint32(binary.BigEndian.Uint16(ip))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

const (
	// RFC 791's header with the checksum that makes its sum 0xffff; UDP 4791.
	overIPv4 = "4502 0024 1234 4000 4011 1491 0a000001 0a000002 c000 12b7 0010 0000"
	overIPv6 = "60212345 0010 11 40 fd000000000000000000000000000001" +
		"fd000000000000000000000000000002 c000 12b7 0010 0000"
)

// A mark changes the ECN bits and the checksum that covers them, and nothing else.
func TestFrameECN(t *testing.T) {
	for tos := range 256 {
		for bits := range uint8(4) {
			f := ethernet(etherIPv4, overIPv4)
			ip := f[ethernetHeader:]
			ip[1], ip[10], ip[11] = byte(tos), 0, 0
			binary.BigEndian.PutUint16(ip[10:], ^headerSum(f))
			f.setECN(bits)
			if want := byte(tos)&^3 | bits; f.tos() != want || headerSum(f) != 0xffff {
				t.Fatalf("TOS %#x: %#x, sum %#x", tos, f.tos(), headerSum(f))
			}
			v6 := ethernet(etherIPv6, overIPv6)
			was := v6.tos()
			v6.setECN(bits)
			if v6.tos() != was&^3|bits || v6[ethernetHeader]>>4 != 6 ||
				v6[ethernetHeader+1]&15 != 1 {
				t.Fatalf("% x", v6)
			}
		}
	}
	other := ethernet(0x0806, overIPv4)
	if other.setECN(3); other.tos() != 0 || string(other) != string(ethernet(0x0806, overIPv4)) {
		t.Errorf("a frame that is not IP has changed: % x", other)
	}
}

func TestFramePorts(t *testing.T) {
	for _, c := range []struct {
		name     string
		f        frame
		from, to uint16
	}{
		{"IPv4", ethernet(etherIPv4, overIPv4), 0xc000, 4791},
		{"IPv6", ethernet(etherIPv6, overIPv6), 0xc000, 4791},
		{"a later fragment", ethernet(etherIPv4, strings.Replace(overIPv4, "4000", "0001", 1)), 0, 0},
		{"ICMP", ethernet(etherIPv4, strings.Replace(overIPv4, "4011", "4001", 1)), 0, 0},
		{"a header beyond the end", ethernet(etherIPv4, strings.Replace(overIPv4, "4502", "4f02", 1)), 0, 0},
		{"a header too short", ethernet(etherIPv4, strings.Replace(overIPv4, "4502", "4102", 1)), 0, 0},
		{"ARP", ethernet(0x0806, overIPv4), 0, 0},
		{"nothing", ethernet(etherIPv4, ""), 0, 0},
	} {
		if from, to := c.f.ports(); from != c.from || to != c.to {
			t.Errorf("%s: from %d to %d", c.name, from, to)
		}
		for n := ethernetHeader; n < len(c.f); n++ { // a frame that was cut off does no harm
			c.f[:n].ports()
			c.f[:n].tos()
			c.f[:n].setECN(3)
		}
	}
}
