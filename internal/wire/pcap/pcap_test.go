// SPDX-License-Identifier: BSD-2-Clause

package pcap_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// packet returns a SEND of n bytes with a right ICRC for the flow and id.
func packet(src, dst netip.AddrPort, id uint16, n int) []byte {
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, MigReq: true, PKey: 0xffff, DestQP: 17}, Payload: make([]byte, n)}
	ps := roce.NewPseudo(src.Addr(), dst.Addr(), src.Port(), dst.Port())
	return ps.Seal(p.Append(nil), id)
}

// flowTime is the time of frames whose time does not matter.
var flowTime = time.Unix(1700000000, 0)

var flows = []struct{ src, dst netip.AddrPort }{
	{netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4791")},
	{netip.MustParseAddrPort("[::ffff:10.0.0.3]:50001"), netip.MustParseAddrPort("10.0.0.4:4791")},
	{netip.MustParseAddrPort("[fd00::1]:50002"), netip.MustParseAddrPort("[fd00::2]:4791")},
	{netip.MustParseAddrPort("[fe80::1%eth0]:50003"), netip.MustParseAddrPort("[fe80::2%eth0]:4791")},
}

// bare returns an address as a frame carries it: no zone, no mapping.
func bare(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// writeAll writes a datagram of each size in each flow.
func writeAll(t testing.TB, w *pcap.Writer, at time.Time) (payloads [][]byte) {
	t.Helper()
	for i, f := range flows {
		for _, n := range []int{0, 1, 1024, 4096} {
			id := uint16(1000*i + n)
			b := packet(bare(f.src), bare(f.dst), id, n)
			if err := w.Write(&pcap.Datagram{Time: at, Src: f.src, Dst: f.dst, IPID: id}, b[:5], nil, b[5:]); err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, b)
		}
	}
	return payloads
}

func TestWriteRead(t *testing.T) {
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "verbena0")
	at := time.Unix(1700000000, 123456789)
	want := writeAll(t, w, at)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := pcapread.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range want {
		d, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		f := flows[i/4]
		if d.Src != bare(f.src) || d.Dst != bare(f.dst) || !d.Time.Equal(at) || !bytes.Equal(d.Payload, b) {
			t.Errorf("%d: %v → %v at %v, %d bytes", i, d.Src, d.Dst, d.Time, len(d.Payload))
		}
		if !d.VerifyICRC() || !d.DontFragment || d.HopLimit != 64 || d.TrafficClass != 0 || d.Truncated || r.Frame() != i+1 {
			t.Errorf("%d: %+v", i, d)
		}
		if d.Src.Addr().Is4() && d.IPID != uint16(1000*(i/4)+[]int{0, 1, 1024, 4096}[i%4]) {
			t.Errorf("%d: identification %d", i, d.IPID)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestWiresharkOpens holds that tshark finds no fault in a file of ours, the
// checksums included.
func TestWiresharkOpens(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	file := filepath.Join(t.TempDir(), "ours.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "verbena0")
	n := len(writeAll(t, w, time.Unix(1700000000, 0)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// rpcordma takes any short SEND for a broken RPC.
	out, err := exec.Command(tshark, "-r", file, "--disable-protocol", "rpcordma", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-e", "frame.interface_name", "-e", "infiniband.bth.opcode", "-e", "_ws.expert.message").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	if want := strings.Repeat("verbena0\t4\t\n", n); string(out) != want {
		t.Errorf("tshark says\n%s", out)
	}
}

// A Reader and Wireshark show a frame's comment, direction, traffic class and hop limit.
func TestComments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "verbena0")
	comments := []string{"", "rtt_ns=1", "window_bytes=22", "", "µ", strings.Repeat("x", 1<<16)}
	at, b := flows[0], packet(flows[0].src, flows[0].dst, 7, 100)
	way := func(i int) pcap.Direction { return pcap.Direction(i / 2) }
	for i, c := range comments {
		if err := w.Write(&pcap.Datagram{Time: flowTime, Src: at.src, Dst: at.dst, Direction: way(i), IPID: 7, TrafficClass: 0x6b, HopLimit: 9, Comment: c}, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, c := range comments {
		d, err := r.Next()
		if err != nil || !bytes.Equal(d.Payload, b) || !d.VerifyICRC() || d.Comment != c[:min(len(c), 1<<16-1)] || d.Direction != way(i) || d.TrafficClass != 0x6b || d.HopLimit != 9 {
			t.Fatalf("frame %d: %.300v, %v", i+1, d, err)
		}
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	out, err := exec.Command(tshark, "-r", file, "-T", "fields", "-e", "ip.dsfield", "-e", "ip.ttl", "-e", "frame.packet_flags_direction", "-e", "frame.comment").Output()
	comments[5] = comments[5][:1<<16-1]
	want := ""
	for i, c := range comments {
		want += "0x6b\t9\t" + []string{"", "0x00000001", "0x00000002"}[way(i)] + "\t" + c + "\n"
	}
	if err != nil || string(out) != want {
		t.Errorf("tshark says %.200q, %v", out, err)
	}
}

// TestWiresharkOpensSegments: tshark follows a connection, and finds no wrong
// checksum and no wrong sequence number in it.
func TestWiresharkOpensSegments(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	file := filepath.Join(t.TempDir(), "ours.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "verbena0")
	var want strings.Builder
	for _, i := range []int{0, 2} {
		client, server := netip.AddrPortFrom(flows[i].src.Addr(), 50000), netip.AddrPortFrom(flows[i].dst.Addr(), 50001)
		for _, s := range []struct {
			pcap.Segment
			payload [][]byte
			flags   string
		}{
			{pcap.Segment{Src: client, Dst: server, SYN: true}, nil, "0x0002"},
			{pcap.Segment{Src: server, Dst: client, SYN: true, HasAck: true, Ack: 1}, nil, "0x0012"},
			{pcap.Segment{Src: client, Dst: server, Seq: 1, HasAck: true, Ack: 1}, [][]byte{[]byte("ab"), []byte("c")}, "0x0018"},
			{pcap.Segment{Src: server, Dst: client, Seq: 1, HasAck: true, Ack: 4, FIN: true}, nil, "0x0011"},
			{pcap.Segment{Src: client, Dst: server, Seq: 4, HasAck: true, Ack: 2, RST: true}, nil, "0x0014"},
		} {
			s.Time = flowTime
			if err := w.WriteSegment(&s.Segment, s.payload...); err != nil {
				t.Fatal(err)
			}
			ip := "1"
			if client.Addr().Is6() { // which has no checksum
				ip = ""
			}
			want.WriteString(s.flags + "\t1\t" + ip + "\t\n")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
		"-T", "fields", "-e", "tcp.flags", "-e", "tcp.checksum.status", "-e", "ip.checksum.status", "-e", "tcp.analysis.flags").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	if string(out) != want.String() {
		t.Errorf("tshark says\n%s", out)
	}
}

// TestWriterShared writes from several goroutines; run with -race.
func TestWriterShared(t *testing.T) {
	const writers, each = 4, 50
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "verbena0")
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			f := flows[i]
			b := packet(bare(f.src), bare(f.dst), 7, 100*i)
			for range each {
				if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: f.src, Dst: f.dst, IPID: 7}, b); err != nil {
					t.Error(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, _ := pcapread.NewReader(&file)
	n := 0
	for {
		d, err := r.Next()
		if err != nil {
			break
		}
		if n++; !d.VerifyICRC() {
			t.Errorf("frame %d: bad ICRC", n)
		}
	}
	if n != writers*each {
		t.Errorf("%d frames, want %d", n, writers*each)
	}
}

func TestWriterRefuses(t *testing.T) {
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "verbena0")
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: flows[0].src, Dst: flows[2].dst}, []byte("x")); err != pcap.ErrFamily {
		t.Errorf("mixed families: %v", err)
	}
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: netip.AddrPort{}, Dst: netip.AddrPort{}}, nil); err != pcap.ErrFamily {
		t.Errorf("no addresses: %v", err)
	}
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: flows[0].src, Dst: flows[0].dst}, make([]byte, 65508)); err == nil {
		t.Error("65508 bytes were written")
	}
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: flows[0].src, Dst: flows[0].dst}, make([]byte, 65507)); err != nil {
		t.Errorf("a refused datagram spoils the next: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != pcap.ErrClosed {
		t.Errorf("second Close: %v", err)
	}
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: flows[0].src, Dst: flows[0].dst}, nil); err != pcap.ErrClosed {
		t.Errorf("Write after Close: %v", err)
	}
}

// full is a disk that is full.
type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }

func TestWriterKeepsFirstError(t *testing.T) {
	noSpace := errors.New("no space left on device")
	w := pcap.NewWriter(full{noSpace}, "verbena0")
	if err := w.Flush(); err != noSpace {
		t.Errorf("Flush: %v", err)
	}
	if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: flows[0].src, Dst: flows[0].dst}, nil); err != noSpace {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); err != noSpace {
		t.Errorf("Close: %v", err)
	}
}
