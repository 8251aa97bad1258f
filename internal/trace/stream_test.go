// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// items calls f with every item of a capture.
func items(t *testing.T, file string, f func(i *Item)) {
	t.Helper()
	r, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var s Streams
	for {
		_, seg, err := r.NextPacket()
		if err == io.EOF {
			s.Flush(f)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if seg != nil {
			s.Segment(r.Frame(), seg, f)
		}
	}
}

// TestItemsAsTshark compares the info of every frame of siw's captures with the output of tshark
// 4.0.17: tshark -r FILE -Y iwarp_mpa --disable-protocol rpcordma --disable-protocol smb_direct
// --disable-heuristic smb_direct_iwarp --disable-heuristic rpcrdma_iwarp -T fields -e frame.number
// -e _ws.col.Info. If a frame has several FPDUs tshark's column has the last one. Behind bytes that
// were not captured it finds no FPDU that begins within a segment; those of ours that it does not
// know are counted.
//
// ours-crc and ours-crc-markers are two of our machines, with CRCs, markers,
// atomics and a Terminate, an FPDU a segment; tshark -V calls every CRC good.
func TestItemsAsTshark(t *testing.T) {
	golden, err := os.Open("testdata/tshark-4.0.17-iwarp-info.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	want := map[string]string{}
	for s := bufio.NewScanner(golden); s.Scan(); {
		f := strings.SplitN(s.Text(), "\t", 3)
		want[f[0]+" "+f[1]] = f[2]
	}
	known := len(want)
	files, _ := filepath.Glob(captureDir + "/siw*.pcap")
	ours, _ := filepath.Glob("testdata/ours*.pcap")
	var f Formatter
	unknown := 0
	for _, file := range append(files, ours...) {
		last := map[string]string{}
		items(t, file, func(i *Item) {
			last[fmt.Sprintf("%s %d", filepath.Base(file), i.Number)] = string(f.AppendItemInfo(nil, i))
		})
		for key, got := range last {
			switch w, ok := want[key]; {
			case !ok:
				unknown++
				t.Logf("%s: %q, nothing of tshark's", key, got)
			case got != w:
				t.Errorf("%s: %q, tshark says %q", key, got, w)
			}
			delete(want, key)
		}
	}
	if len(want) != 0 {
		t.Errorf("of %d frames of tshark's %d were not seen: %v", known, len(want), want)
	}
	if unknown > maxUnknown {
		t.Errorf("%d frames are unknown to tshark, at most %d were", unknown, maxUnknown)
	}
}

// maxUnknown are the frames of siw's captures in which tshark sees no FPDU.
const maxUnknown = 0

// TestGoldenItems holds whole lines, as TestGoldenLines does.
func TestGoldenItems(t *testing.T) {
	var f Formatter
	for _, name := range []string{
		"siw-rping", "siw-rping6", "siw-op-readbad", "siw-op-writeover", "siw-op-toolong", "siw-op-reject", "siw-op-sendinv", "siw-op-sendse", "siw-write",
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			var start time.Time
			items(t, filepath.Join(captureDir, name+".pcap"), func(i *Item) {
				if start.IsZero() {
					start = i.Time
				}
				got = append(f.AppendItem(got, i.Time.Sub(start), i), '\n')
			})
			wantGolden(t, name, got)
		})
	}
}

// talk is one direction of a connection for tests.
type talk struct {
	src, dst netip.AddrPort
	seq      uint32
}

func (k *talk) segment(b []byte) *pcap.Segment {
	s := &pcap.Segment{Src: k.src, Dst: k.dst, Seq: k.seq, Payload: b, FrameLen: len(b) + 66}
	k.seq += uint32(len(b))
	return s
}

func pairOfTalks() (a, b *talk) {
	x, y := netip.MustParseAddrPort("10.0.0.1:5000"), netip.MustParseAddrPort("10.0.0.2:7471")
	return &talk{x, y, 0xffffff00}, &talk{y, x, 77} // sequence numbers wrap on the way
}

func header(o iwarp.Opcode, last bool) iwarp.Header {
	return iwarp.Header{Control: iwarp.NewControl(o, last), QN: o.Info().QN, MSN: 1}
}

// lines collects the emitted items.
func lines(out *[]string) func(*Item) {
	f := Formatter{}
	return func(i *Item) {
		line := string(f.AppendItem(nil, 0, i))
		_, line, _ = strings.Cut(line, "→ ")
		*out = append(*out, line)
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestWhatSiwNeverSent has messages that no capture holds.
func TestWhatSiwNeverSent(t *testing.T) {
	a, b := pairOfTalks()
	var got []string
	var s Streams
	n := 0
	give := func(seg *pcap.Segment) { n++; s.Segment(n, seg, lines(&got)) }
	fpdu := func(h iwarp.Header, payload []byte) []byte {
		return iwarp.AppendFPDU(nil, append(h.Append(nil), payload...), true)
	}
	give(a.segment(iwarp.MPAFrame{CRC: true, Revision: 2, IsEnhanced: true, Enhanced: iwarp.Enhanced{PeerToPeer: true, EmptyFPDU: true, WriteRTR: true, ReadRTR: true, IRD: 1, ORD: 2}}.Append(nil)))
	give(b.segment(iwarp.MPAFrame{Reply: true, Revision: 1, Reject: true, PrivateData: []byte("no")}.Append(nil)))
	give(a.segment(iwarp.AppendFPDU(nil, nil, true)))
	give(a.segment(fpdu(header(iwarp.AtomicRequest, true), iwarp.AtomicReq{Op: iwarp.CmpSwap, ID: 3, STag: 7, TO: 64, AddSwap: 1, AddSwapMask: 2, Compare: 3, CompareMask: 4}.Append(nil))))
	give(a.segment(fpdu(header(iwarp.AtomicRequest, true), iwarp.AtomicReq{ID: 3, STag: 7, TO: 64, AddSwap: 1}.Append(nil))))
	give(b.segment(fpdu(header(iwarp.AtomicResponse, true), iwarp.AtomicResp{ID: 3, Orig: 9}.Append(nil))))
	give(a.segment(fpdu(header(iwarp.ImmediateSE, true), iwarp.ImmData{Data: 5}.Append(nil))))
	give(a.segment(fpdu(header(iwarp.ReadRequest, true), make([]byte, 27))))
	give(a.segment(fpdu(header(13, true), nil)))
	give(a.segment(iwarp.AppendFPDU(nil, []byte("x"), true)))
	give(b.segment(fpdu(header(iwarp.Terminate, true), iwarp.TermMsg{TermError: iwarp.MPACRCError}.Append(nil))))
	bad := fpdu(header(iwarp.Send, true), []byte("hello"))
	bad[22] ^= 1
	give(a.segment(bad))
	give(a.segment(fpdu(header(iwarp.Send, true), []byte("after"))))
	const from, back = "10.0.0.2 DDP/RDMA ", "10.0.0.1 DDP/RDMA "
	wantLines(t, got,
		"10.0.0.2 MPA 90 5000 > 7471 MPA Request Frame  Rev=2 CRC IRD=1 ORD=2 PeerToPeer RTR=FPDU RTR=Write RTR=Read PrivateData=0",
		"10.0.0.1 MPA 88 7471 > 5000 MPA Reply Frame  Rev=1 Reject PrivateData=2",
		"10.0.0.2 MPA 74 5000 > 7471 MPA FPDU ",
		from+"142 5000 > 7471 Atomic Request [last DDP segment]  QN=1 MSN=1 MO=0 CmpSwap ID=3 STag=0x00000007 TO=0x40 Swap=0x0000000000000001 Mask=0x0000000000000002 Compare=0x0000000000000003 Mask=0x0000000000000004",
		from+"142 5000 > 7471 Atomic Request [last DDP segment]  QN=1 MSN=1 MO=0 FetchAdd ID=3 STag=0x00000007 TO=0x40 Add=0x0000000000000001 Mask=0x0000000000000000",
		back+"102 7471 > 5000 Atomic Response [last DDP segment]  QN=3 MSN=1 MO=0 ID=3 Orig=0x0000000000000009",
		from+"98 5000 > 7471 Immediate Data with SE [last DDP segment]  QN=0 MSN=1 MO=0 Imm=0x00000005",
		from+"118 5000 > 7471 Read Request [last DDP segment] [Malformed Packet]  QN=1 MSN=1 MO=0",
		from+"90 5000 > 7471 Unknown 13 [last DDP segment] [Malformed Packet]  QN=0 MSN=1 MO=0",
		from+"74 5000 > 7471 [Malformed Packet: 1 bytes] ",
		back+"94 7471 > 5000 Terminate [last DDP segment]  QN=2 MSN=1 MO=0 LLP: MPA Error: MPA CRC Error",
		from+"98 5000 > 7471 Send [last DDP segment] [Bad CRC]  QN=0 MSN=1 MO=0 Len=5",
	)
}

// TestSegmentsInAnyOrder cuts a stream into segments that come late, twice and
// overlapping; the items are those of the stream in order.
func TestSegmentsInAnyOrder(t *testing.T) {
	a, b := pairOfTalks()
	start := a.seq
	all := iwarp.MPAFrame{CRC: true, Revision: 1}.Append(nil)
	first := len(all)
	for i := range 40 {
		h := header(iwarp.Send, true)
		h.MSN = uint32(i)
		all = iwarp.AppendFPDU(all, append(h.Append(nil), make([]byte, i*17)...), true)
	}
	var want []string
	var s Streams
	s.Segment(1, a.segment(all[:first]), lines(&want))
	s.Segment(1, b.segment(iwarp.MPAFrame{Reply: true, Revision: 1}.Append(nil)), lines(&want))
	s.Segment(1, a.segment(all[first:]), lines(&want))
	lengths := func(l []string) (out []string) { // without the frame's number of bytes
		for _, x := range l {
			f := strings.Fields(x)
			out = append(out, strings.Join(append(f[:2:2], f[3:]...), " "))
		}
		return out
	}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var got []string
		var s Streams
		var waiting []*pcap.Segment
		at := func(off, n int) *pcap.Segment {
			return &pcap.Segment{Src: a.src, Dst: a.dst, Seq: start + uint32(off), Payload: all[off : off+n]}
		}
		s.Segment(1, at(0, first), lines(&got))
		s.Segment(1, &pcap.Segment{Src: b.src, Dst: b.dst, Seq: 5, Payload: iwarp.MPAFrame{Reply: true, Revision: 1}.Append(nil)}, lines(&got))
		for off := first; off < len(all); {
			n := min(1+rnd.IntN(900), len(all)-off)
			early := rnd.IntN(min(off-first+1, 100))
			waiting = append(waiting, at(off-early, n+early))
			off += n
		}
		for len(waiting) > 0 {
			i := rnd.IntN(min(len(waiting), 6))
			s.Segment(2, waiting[i], lines(&got))
			if rnd.IntN(5) > 0 {
				waiting = append(waiting[:i], waiting[i+1:]...)
			}
		}
		s.Flush(lines(&got))
		if g, w := strings.Join(lengths(got), "\n"), strings.Join(lengths(want), "\n"); g != w {
			t.Fatalf("seed %d: %s", seed, firstDifference(g, w))
		}
		for _, h := range s.conns {
			if len(h.ahead) != 0 || h.held != 0 {
				t.Fatalf("seed %d: %d bytes wait", seed, h.held)
			}
		}
	}
}

// TestMissingBytes goes on behind bytes that were not captured, when there is
// too much behind them or nothing more comes.
func TestMissingBytes(t *testing.T) {
	send := iwarp.AppendFPDU(nil, append(header(iwarp.Send, true).Append(nil), make([]byte, 1000)...), false)
	for _, n := range []int{3, maxAhead/len(send) + 2} {
		a, b := pairOfTalks()
		var got []string
		var s Streams
		s.Segment(1, a.segment(iwarp.MPAFrame{Revision: 1}.Append(nil)), lines(&got))
		s.Segment(2, b.segment(iwarp.MPAFrame{Reply: true, Revision: 1}.Append(nil)), lines(&got))
		a.segment(send) // lost
		for i := range n {
			s.Segment(3+i, a.segment(send), lines(&got))
			for _, h := range s.conns {
				if h.held > maxAhead+len(send) {
					t.Fatalf("%d bytes wait", h.held)
				}
			}
		}
		if held := len(got) == 2; held != (n == 3) {
			t.Errorf("%d items before the end of %d", len(got), n)
		}
		s.Flush(lines(&got))
		if len(got) != 2+n || !strings.Contains(got[2], "[TCP Previous segment not captured] 5000 > 7471 Send") || strings.Contains(got[3], "captured") {
			t.Errorf("%d items: %q", len(got), got[:min(len(got), 4)])
		}
	}
}

// TestOtherConnections are passed over, and there is an end to how many are
// looked after.
func TestOtherConnections(t *testing.T) {
	var got []string
	var s Streams
	a, _ := pairOfTalks()
	s.Segment(1, a.segment([]byte("GET / HTTP/1.1\r\n\r\n")), lines(&got))
	s.Segment(2, a.segment([]byte("MPA ID Req Fram")), lines(&got)) // less than it takes to tell
	if len(s.conns) != 0 || len(got) != 0 {
		t.Errorf("%d connections, %q", len(s.conns), got)
	}
	request := iwarp.MPAFrame{Revision: 1}.Append(nil)
	for i := range maxConnections + 10 {
		k := &talk{src: netip.AddrPortFrom(a.src.Addr(), uint16(10000+i)), dst: a.dst}
		s.Segment(i, k.segment(request), lines(&got))
	}
	if len(s.conns) != 2*maxConnections || len(s.order) != maxConnections || len(got) != maxConnections+10 {
		t.Errorf("%d halves, %d connections, %d items", len(s.conns), len(s.order), len(got))
	}
	k := &talk{src: netip.AddrPortFrom(a.src.Addr(), 10500), dst: a.dst}
	s.Segment(1, &pcap.Segment{Src: k.src, Dst: k.dst, SYN: true}, lines(&got))
	if len(s.order) != maxConnections-1 {
		t.Error("a new connection of the same ports is the old one")
	}
	s.Segment(1, &pcap.Segment{Src: k.src, Dst: k.dst, Payload: request[:20], Truncated: true}, lines(&got))
}

// FuzzStreams gives any bytes as the two streams of a connection: it must hold
// its bounds and end.
func FuzzStreams(f *testing.F) {
	f.Add(iwarp.AppendFPDU(nil, header(iwarp.Send, true).Append(nil), true), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		x, y := pairOfTalks()
		var s Streams
		fm := Formatter{}
		emit := func(i *Item) { fm.AppendItem(nil, 0, i) }
		s.Segment(1, x.segment(iwarp.MPAFrame{CRC: seed&1 != 0, Markers: seed&2 != 0, Revision: 1}.Append(nil)), emit)
		s.Segment(1, y.segment(iwarp.MPAFrame{Reply: true, Markers: seed&4 != 0, Revision: 1}.Append(nil)), emit)
		for len(b) > 0 {
			k := 1 + rnd.IntN(len(b))
			seg := []*talk{x, y}[rnd.IntN(2)].segment(b[:k])
			seg.Seq += uint32(rnd.IntN(3) * rnd.IntN(50))
			s.Segment(2, seg, emit)
			b = b[k:]
		}
		s.Flush(emit)
		for _, h := range s.conns {
			if len(h.ahead) > 0 && !h.dead || len(h.ulpdu) > headBytes || len(h.frame) > iwarp.MPAFrameBytes+iwarp.MaxPrivateBytes {
				t.Fatalf("%d segments, %d and %d bytes are kept", len(h.ahead), len(h.ulpdu), len(h.frame))
			}
		}
	})
}
