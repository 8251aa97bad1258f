// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

const captureDir = "../../testdata/captures"

var update = flag.Bool("update", false, "write the golden files anew")

// each calls f with every RoCEv2 datagram of a capture.
func each(t *testing.T, file string, f func(frame int, d *pcap.Datagram)) {
	t.Helper()
	r, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		d, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(r.Frame(), &d)
	}
}

// TestInfoAsTshark compares the info of every captured packet with the output of tshark 4.0.17:
// tshark -r FILE -Y infiniband --disable-protocol rpcordma -T fields -e frame.number -e
// _ws.col.Info. (With rpcordma on, tshark takes short SENDs of other applications for broken RPC
// and calls them malformed.)
func TestInfoAsTshark(t *testing.T) {
	golden, err := os.Open("testdata/tshark-4.0.17-info.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	want := map[string]string{}
	for s := bufio.NewScanner(golden); s.Scan(); {
		f := strings.SplitN(s.Text(), "\t", 3)
		want[f[0]+" "+f[1]] = f[2]
	}
	files, _ := filepath.Glob(captureDir + "/*.pcap")
	f := Formatter{DescribeMAD: cm.Describe}
	for _, file := range files {
		each(t, file, func(frame int, d *pcap.Datagram) {
			var p roce.Packet
			m := p.Parse(d.Payload)
			key := fmt.Sprintf("%s %d", filepath.Base(file), frame)
			if got := string(f.AppendInfo(nil, &p, m)); got != want[key] {
				t.Errorf("%s: %q, tshark says %q", key, got, want[key])
			}
			delete(want, key)
		})
	}
	if len(want) != 0 {
		t.Errorf("%d packets of tshark's were not seen", len(want))
	}
}

// TestGoldenLines holds whole lines. After a change of the format:
// go test ./internal/trace -update, and read the difference.
func TestGoldenLines(t *testing.T) {
	f := Formatter{DescribeMAD: cm.Describe}
	for _, name := range []string{
		"rxe-rping", "rxe-rping6", "rxe-op-readbad", "rxe-op-cas", "rxe-op-fadd", "rxe-op-sendinv", "rxe-op-sendimm", "rxe-op-writeimm",
		"rxe-op-sendse", "rxe-op-rnrfail", "rxe-op-toolong", "rxe-op-reject", "rxe-pp-uc", "rxe-udaddy", "rxe-mckey",
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			var start time.Time
			each(t, filepath.Join(captureDir, name+".pcap"), func(frame int, d *pcap.Datagram) {
				if start.IsZero() {
					start = d.Time
				}
				got = append(f.AppendLine(got, frame, d.Time.Sub(start), d), '\n')
			})
			wantGolden(t, name, got)
		})
	}
}

// wantGolden compares lines with those of a golden file.
func wantGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", file, firstDifference(string(got), string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, g[i], strings.Join(w[i:min(i+1, len(w))], ""))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// datagram returns a datagram that carries p, with a right ICRC.
func datagram(p roce.Packet) pcap.Datagram {
	d := pcap.Datagram{Src: netip.MustParseAddrPort("10.0.0.1:50000"), Dst: netip.MustParseAddrPort("10.0.0.2:4791"), IPID: 5, DontFragment: true}
	ps := d.Pseudo()
	d.Payload = ps.Seal(p.Append(nil), d.IPID)
	d.FrameLen = len(d.Payload) + 28
	return d
}

// TestWhatRxeNeverSent has the packets that no capture holds.
func TestWhatRxeNeverSent(t *testing.T) {
	bth := func(o roce.Opcode) roce.BTH { return roce.BTH{Opcode: o, PKey: 0xffff, DestQP: 17, PSN: 9} }
	flush := datagram(roce.Packet{BTH: bth(roce.RCFlush), FETH: roce.FETH{PLT: ib.FlushPersistent, SEL: ib.FlushMR}, RETH: roce.RETH{VA: 0x1000, RKey: 7, DMALen: 64}})
	atomicWrite := datagram(roce.Packet{BTH: bth(roce.RCAtomicWrite), RETH: roce.RETH{VA: 0x1000, RKey: 7, DMALen: 8}, Payload: make([]byte, 8)})
	xrcSend := datagram(roce.Packet{BTH: bth(roce.XRCSendMiddle), XRCETH: roce.XRCETH{SRQ: 0x123}, Payload: []byte("hello")})
	xrcAtomic := datagram(roce.Packet{BTH: bth(roce.XRCFetchAdd), XRCETH: roce.XRCETH{SRQ: 0x123}, AtomicETH: roce.AtomicETH{VA: 8, RKey: 7, SwapAdd: 1}})
	xrcNak := datagram(roce.Packet{BTH: bth(roce.XRCAcknowledge), AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess, MSN: 2}})
	cnp := datagram(roce.Packet{BTH: roce.BTH{Opcode: roce.CNP, PKey: 0x7fff, DestQP: 17, BECN: true, FECN: true}, Payload: make([]byte, 16)})
	credits := datagram(roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.ACK(5), MSN: 2}})
	rnr := datagram(roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.RNRNAK(0), MSN: 2}})
	reserved := datagram(roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: 0x41, MSN: 2}})
	unknown := datagram(roce.Packet{BTH: bth(0x15)})
	badICRC := datagram(roce.Packet{BTH: bth(roce.RCSendOnly), Payload: []byte("hello")})
	badICRC.Payload[13] ^= 1
	odd := datagram(roce.Packet{BTH: bth(roce.RCSendOnly)})
	odd.Payload = append(odd.Payload, 0)
	tiny := pcap.Datagram{Src: odd.Src, Dst: odd.Dst, Payload: []byte{1, 2, 3}, FrameLen: 31}
	cut := datagram(roce.Packet{BTH: bth(roce.RCSendOnly), Payload: []byte("hello")})
	cut.Payload, cut.Truncated = cut.Payload[:13], true
	cutShort := pcap.Datagram{Src: odd.Src, Dst: odd.Dst, Truncated: true, FrameLen: 100}
	var f Formatter
	for _, c := range []struct {
		d    pcap.Datagram
		want string
	}{
		{flush, "64 RC Flush QP=0x000011  PSN=9 PLT=2 SEL=1 VA=0x1000 RKey=0x00000007 DMALen=64"},
		{atomicWrite, "68 RC Atomic Write QP=0x000011  PSN=9 VA=0x1000 RKey=0x00000007 DMALen=8 Len=8"},
		{xrcSend, "56 XRC Send Middle QP=0x000011  PSN=9 XRCSRQ=0x000123 Len=5"},
		{xrcAtomic, "76 XRC Fetch Add QP=0x000011  PSN=9 XRCSRQ=0x000123 VA=0x8 RKey=0x00000007 Add=0x0000000000000001"},
		{xrcNak, "48 XRC Acknowledge QP=0x000011 [Remote Access Error]  PSN=9 MSN=2"},
		{cnp, "60 CNP QP=0x000011  PSN=0 FECN BECN PKey=0x7fff Len=16"},
		{credits, "48 RC Acknowledge QP=0x000011  PSN=9 Credits=6 MSN=2"},
		{rnr, "48 RC Acknowledge QP=0x000011  PSN=9 RNR Nak Timer=655.36ms MSN=2"},
		{reserved, "48 RC Acknowledge QP=0x000011  PSN=9 Syndrome=0x41 MSN=2"},
		{unknown, "44 Unknown OpCode (0x15) QP=0x000011 [Malformed Packet: bad_opcode]  PSN=9"},
		{badICRC, "52 RC Send Only QP=0x000011 [Bad ICRC]  PSN=9 Len=5"},
		{odd, "44 [Malformed Packet: bad_length, 17 bytes]"},
		{tiny, "31 [Malformed Packet: too_short, 3 bytes]"},
		{cut, "52 RC Send Only QP=0x000011 [Packet size limited during capture]  PSN=9"},
		{cutShort, "100 [Packet size limited during capture]"},
	} {
		got := string(f.AppendLine(nil, 1, 1500*time.Microsecond, &c.d))
		if want := "    1    0.001500 10.0.0.1 → 10.0.0.2 RRoCE " + c.want; got != want {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	}
	f.InfoOnly = true
	if got := string(f.AppendLine(nil, 1, 0, &flush)); got != "    1    0.000000 10.0.0.1 → 10.0.0.2 RRoCE 64 RC Flush QP=0x000011" {
		t.Errorf("%q", got)
	}
	if got := string(f.AppendLine(nil, 1, 0, &cut)); !strings.HasSuffix(got, "RC Send Only QP=0x000011 [Packet size limited during capture]") {
		t.Errorf("%q", got)
	}
}

// TestXRCAsTshark compares the names of XRC's opcodes with those that tshark
// 4.0.17 gives the field infiniband.bth.opcode: tshark -V on a capture with one
// packet of each opcode from 0xa0 to 0xbf. It knows no name for annex A19's two.
func TestXRCAsTshark(t *testing.T) {
	golden, err := os.ReadFile("testdata/tshark-4.0.17-xrc-opcodes.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	short := strings.NewReplacer("Extended Reliable Connection (XRC) - ", "XRC ", " with ", " ", "CmpSwap", "Compare Swap", "FetchAdd", "Fetch Add")
	for line := range strings.Lines(string(golden)) {
		var o roce.Opcode
		number, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if _, err := fmt.Sscan(number, &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !strings.EqualFold(o.String(), short.Replace(name)) {
			t.Errorf("%#02x is %q, tshark says %q", uint8(o), o, name)
		}
		known++
	}
	for o := roce.XRCSendFirst; o <= 0xbf; o++ {
		if o.Info().Valid && o != roce.XRCFlush && o != roce.XRCAtomicWrite {
			known--
		}
	}
	if known != 0 {
		t.Errorf("tshark knows %+d opcodes more than we", known)
	}
}
