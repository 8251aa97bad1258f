// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"math/rand/v2"
	"net"
	"reflect"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// slowly decodes a frame by gopacket.NewPacket.
func (f *frame) slowly(data []byte, link layers.LinkType) {
	p := gopacket.NewPacket(data, link, gopacket.DecodeOptions{})
	f.udp, _ = p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	f.tcp, _ = p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	f.ip, f.truncated = p.NetworkLayer(), p.Metadata().Truncated
}

// TestUsualFrames: frames that are decoded to memory of the Reader are those of gopacket.NewPacket,
// also damaged ones and those that are cut short.
func TestUsualFrames(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	type link struct {
		link  layers.LinkType
		frame []byte
	}
	var frames []link
	for i, ethertype := range []layers.EthernetType{layers.EthernetTypeIPv4, layers.EthernetTypeIPv6} {
		udp := rawFrame(t, i)
		tcp := append([]byte(nil), udp...)
		tcp[map[int]int{0: 9, 1: 6}[i]] = 6
		for _, ip := range [][]byte{udp, tcp} {
			ether := under(t, ip, &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: ethertype})
			tagged := under(t, ip, &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeDot1Q}, &layers.Dot1Q{VLANIdentifier: 5, Type: ethertype})
			frames = append(frames, link{layers.LinkTypeRaw, ip}, link{layers.LinkTypeEthernet, ether}, link{layers.LinkTypeEthernet, append(ether, 0, 0, 0)},
				link{layers.LinkTypeEthernet, tagged})
		}
	}
	var got frame
	usual := 0
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 50_000 {
		l := frames[n%len(frames)]
		b := append([]byte(nil), l.frame...)
		for range random.IntN(4) {
			b[random.IntN(min(len(b), 80))] = byte(random.Uint32())
		}
		info := gopacket.CaptureInfo{Length: len(b) + random.IntN(2)*1000}
		if random.IntN(3) == 0 {
			b = b[:random.IntN(len(b)+1)]
		}
		info.CaptureLength = len(b)
		if got.decodeUsual(b, l.link) {
			usual++
		}
		got.decode(b, l.link)
		var want frame
		want.slowly(b, l.link)
		d, isUDP := got.datagram()
		wantD, wantUDP := want.datagram()
		s, isTCP := got.segment()
		wantS, wantTCP := want.segment()
		if isUDP != wantUDP || isTCP != wantTCP || !reflect.DeepEqual(d, wantD) || !reflect.DeepEqual(s, wantS) || got.missing(info) != want.missing(info) {
			t.Fatalf("%v %x:\n%+v %v %+v %v, want\n%+v %v %+v %v", l.link, b, d, isUDP, s, isTCP, wantD, wantUDP, wantS, wantTCP)
		}
	}
	if usual < 10_000 {
		t.Errorf("%d frames of 50,000 are usual ones", usual)
	}
	if n := testing.AllocsPerRun(100, func() { got.decode(frames[1].frame, layers.LinkTypeEthernet) }); n != 0 {
		t.Errorf("decoding allocates %v times", n)
	}
}
