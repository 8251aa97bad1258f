// SPDX-License-Identifier: BSD-2-Clause

package pcapread

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// flowTime is the time of frames whose time does not matter.
var flowTime = time.Unix(1700000000, 0)

// flows are ends of datagrams, of both address families.
var flows = []struct{ src, dst netip.AddrPort }{
	{netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4791")},
	{netip.MustParseAddrPort("[fd00::1]:50002"), netip.MustParseAddrPort("[fd00::2]:4791")},
}

// ours returns a file of package pcap with a RoCEv2 packet in each of the flows.
func ours(t testing.TB, flows ...struct{ src, dst netip.AddrPort }) []byte {
	t.Helper()
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "verbena0")
	for _, f := range flows {
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, MigReq: true, PKey: 0xffff, DestQP: 17}, Payload: make([]byte, 10)}
		ps := roce.NewPseudo(f.src.Addr(), f.dst.Addr(), f.src.Port(), f.dst.Port())
		if err := w.Write(&pcap.Datagram{Time: flowTime, Src: f.src, Dst: f.dst, IPID: 77}, ps.Seal(p.Append(nil), 77)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// rawFrame returns the IP packet of flow i.
func rawFrame(t testing.TB, i int) []byte {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(ours(t, flows[i])), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	frame, _, err := r.ReadPacketData()
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// under puts link layer headers before an IP packet.
func under(t testing.TB, ip []byte, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{}, append(l, gopacket.Payload(ip))...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pcapFile returns a pcap file of one frame.
func pcapFile(t testing.TB, link layers.LinkType, frame []byte, wireBytes int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(1<<18, link); err != nil {
		t.Fatal(err)
	}
	if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: wireBytes}, frame); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLinkLayers reads one packet under every link layer.
func TestLinkLayers(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	eth := func(next layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: next}
	}
	for i, ethertype := range map[int]layers.EthernetType{0: layers.EthernetTypeIPv4, 1: layers.EthernetTypeIPv6} {
		ip := rawFrame(t, i)
		sll := make([]byte, 16)
		binary.BigEndian.PutUint16(sll[2:], 1) // ARPHRD_ETHER
		binary.BigEndian.PutUint16(sll[4:], 6)
		binary.BigEndian.PutUint16(sll[14:], uint16(ethertype))
		sll2 := make([]byte, 20)
		binary.BigEndian.PutUint16(sll2, uint16(ethertype))
		binary.BigEndian.PutUint16(sll2[8:], 1)
		sll2[11] = 6
		family := make([]byte, 4)
		binary.LittleEndian.PutUint32(family, map[int]uint32{0: 2, 1: 30}[i])
		for name, c := range map[string]struct {
			link  layers.LinkType
			frame []byte
		}{
			"raw":      {layers.LinkTypeRaw, ip},
			"raw BSD":  {linkTypeRawBSD, ip},
			"raw Open": {linkTypeRawOpenBSD, ip},
			"Ethernet": {layers.LinkTypeEthernet, under(t, ip, eth(ethertype))},
			"VLAN":     {layers.LinkTypeEthernet, under(t, ip, eth(layers.EthernetTypeDot1Q), &layers.Dot1Q{VLANIdentifier: 5, Type: ethertype})},
			"padded":   {layers.LinkTypeEthernet, append(under(t, ip, eth(ethertype)), 0, 0, 0, 0, 0, 0)},
			"cooked":   {layers.LinkTypeLinuxSLL, append(sll, ip...)},
			"cooked 2": {layers.LinkTypeLinuxSLL2, append(sll2, ip...)},
			"null":     {layers.LinkTypeNull, append(family, ip...)},
		} {
			r, err := NewReader(bytes.NewReader(pcapFile(t, c.link, c.frame, len(c.frame))))
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Next()
			if err != nil || d.Src != flows[i].src || d.Dst != flows[i].dst || !d.VerifyICRC() {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		}
	}
}

// TestSkipped passes over packets that are not RoCEv2.
func TestSkipped(t *testing.T) {
	other := rawFrame(t, 0)
	other[22]++ // another destination port
	fragment := rawFrame(t, 0)
	fragment[6], fragment[7] = 0, 10
	tcp := rawFrame(t, 0)
	tcp[9] = 6
	for name, frame := range map[string][]byte{"other port": other, "fragment": fragment, "TCP": tcp, "empty": nil, "garbage": {1, 2, 3}} {
		r, err := NewReader(bytes.NewReader(pcapFile(t, layers.LinkTypeRaw, frame, len(frame))))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := r.Next(); err != io.EOF || r.Frame() != 1 {
			t.Errorf("%s: %+v, %v, %d frames", name, d, err, r.Frame())
		}
	}
}

func TestTruncated(t *testing.T) {
	ip := rawFrame(t, 0)
	r, _ := NewReader(bytes.NewReader(pcapFile(t, layers.LinkTypeRaw, ip[:45], len(ip))))
	d, err := r.Next()
	if err != nil || !d.Truncated || len(d.Payload) != 45-28 || d.FrameLen != len(ip) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestGzip(t *testing.T) {
	ip := rawFrame(t, 0)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(pcapFile(t, layers.LinkTypeRaw, ip, len(ip)))
	z.Close()
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
}

// TestMixedLinks reads a pcapng file whose two interfaces differ in link type.
func TestMixedLinks(t *testing.T) {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkTypeRaw})
	if err != nil {
		t.Fatal(err)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	ip := rawFrame(t, 0)
	for i, f := range [][]byte{under(t, ip, &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeIPv4}), ip} {
		if err := w.WritePacket(gopacket.CaptureInfo{InterfaceIndex: i * raw, CaptureLength: len(f), Length: len(f)}, f); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if d, err := r.Next(); err != nil || !d.VerifyICRC() {
			t.Errorf("frame %d: %+v, %v", i, d, err)
		}
	}
}

// FuzzReader reads anything: it must end, without a panic, and yield nothing
// that is longer than the file.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"rxe-op-readbad", "rxe-mckey"} {
		b, err := os.ReadFile(filepath.Join("../../../testdata/captures", name+".pcap"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-3])
	}
	f.Add(ours(f, flows...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		for {
			d, err := r.Next()
			if err != nil {
				return
			}
			if len(d.Payload) > len(b) && (len(b) < 2 || b[0] != 0x1f) {
				t.Fatalf("%d bytes of payload in a file of %d", len(d.Payload), len(b))
			}
			d.VerifyICRC()
		}
	})
}

// TestCutFile: a file that ends within a frame is reported, so that nobody takes the rest for the
// whole.
func TestCutFile(t *testing.T) {
	ip := rawFrame(t, 0)
	for name, whole := range map[string][]byte{"pcap": pcapFile(t, layers.LinkTypeRaw, ip, len(ip)), "pcapng": ours(t, flows[0])} {
		r, err := NewReader(bytes.NewReader(whole[:len(whole)-len(ip)/2]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err == nil || err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("this is no capture, not even nearly"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(text); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), text) {
		t.Errorf("a text file: %v", err)
	}
	if _, err := NewReader(strings.NewReader("ab")); err != ErrFormat {
		t.Errorf("two bytes: %v", err)
	}
}
