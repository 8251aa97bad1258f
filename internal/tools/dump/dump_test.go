// SPDX-License-Identifier: BSD-2-Clause

package dump

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/tools/cli"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

const captures = "../../../testdata/captures"

func run(t *testing.T, stdin io.Reader, args ...string) (out, errOut string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(&o)
	status = cli.Execute(t.Context(), cmd, &e)
	return o.String(), e.String(), status
}

func TestDumpSpeaksWiresharksWords(t *testing.T) {
	out, errOut, status := run(t, nil, filepath.Join(captures, "rxe-rping.pcap"))
	if status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{"CM: ConnectRequest", "CM: ReadyToUse", "RC Send Only QP=0x", "RC RDMA Read Request QP=0x", "RC Acknowledge QP=0x"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "Bad ICRC") || strings.Contains(out, "Malformed") {
		t.Errorf("a packet of rxe is called bad:\n%s", out)
	}
}

func TestDumpNamesSeveralFiles(t *testing.T) {
	a, b := filepath.Join(captures, "rxe-op-send.pcap"), filepath.Join(captures, "rxe-op-cas.pcap")
	out, _, status := run(t, nil, a, b)
	if status != cli.ExitOK || !strings.HasPrefix(out, a+":\n") || !strings.Contains(out, "\n"+b+":\n") {
		t.Errorf("status %d, output\n%s", status, out)
	}
}

func TestDumpReadsStandardInput(t *testing.T) {
	f, err := os.Open(filepath.Join(captures, "rxe-op-send.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, _, status := run(t, f, "-", "--info-only")
	if status != cli.ExitOK || !strings.Contains(out, "RC Send First") || strings.Contains(out, "PSN=") {
		t.Errorf("status %d, output\n%s", status, out)
	}
}

func TestDumpSaysWhatIsWrongWithAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pcap")
	if err := os.WriteFile(path, []byte("no capture at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".missing"} {
		_, errOut, status := run(t, nil, name)
		if status != cli.ExitFailure || !strings.Contains(errOut, name) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("status %d, message %q", status, errOut)
		}
	}
	if _, _, status := run(t, nil); status != cli.ExitUsage {
		t.Errorf("without FILE: status %d", status)
	}
}

func TestDumpShowsIWARP(t *testing.T) {
	out, errOut, status := run(t, nil, filepath.Join(captures, "siw-rping.pcap"))
	if status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{
		"MPA 90 51906 > 7174 MPA Request Frame  Rev=2", "MPA Reply Frame", "Read Request [last DDP segment]  QN=1 MSN=1",
		"Read Response [more DDP segments]  STag=0x", "Write [last DDP segment]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "Malformed") || strings.Contains(out, "captured") {
		t.Errorf("a frame of siw is called bad:\n%s", out)
	}
	if short, _, _ := run(t, nil, "--info-only", filepath.Join(captures, "siw-rping.pcap")); strings.Contains(short, "Rev=") || !strings.Contains(short, "MPA Request Frame\n") {
		t.Errorf("info only:\n%s", short)
	}
}

// TRP has no port of its own: a Request shows which port it is.
func TestDumpShowsTRP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trp.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "test")
	client, listener, server := netip.MustParseAddrPort("192.0.2.1:40000"), netip.MustParseAddrPort("192.0.2.2:7174"), netip.MustParseAddrPort("192.0.2.2:40001")
	for _, d := range []struct {
		src, dst netip.AddrPort
		payload  []byte
	}{
		{client, netip.MustParseAddrPort("192.0.2.2:53"), []byte("a question of something else")},
		{client, listener, append([]byte{0, 0, 0, 0, 0, 0, 4, 0, 0x10, 0}, 0, 0, 0, 1, 0, 1)},
		{server, client, append([]byte{0, 0, 0, 0, 0, 0, 4, 0, 0x20, 0}, 0, 0, 0, 1, 0, 1)},
	} {
		if err := w.Write(&pcap.Datagram{Time: time.Now(), Src: d.src, Dst: d.dst}, d.payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, errOut, status := run(t, nil, path)
	if status != cli.ExitOK || strings.Count(out, "\n") != 2 || !strings.Contains(out, "TRP 44 40000 > 7174 Request") || !strings.Contains(out, "TRP 44 40001 > 40000 Accept") {
		t.Errorf("status %d: %s\n%s", status, errOut, out)
	}
}

// A packet's comment has a line behind the packet's, without control characters. The mark of a
// congested network is a word of the packet's line.
func TestDumpShowsCommentsAndMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roce.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "test")
	src, dst := netip.MustParseAddrPort("[fd00::1]:50000"), netip.MustParseAddrPort("[fd00::2]:4791")
	ps := roce.NewPseudo(src.Addr(), dst.Addr(), src.Port(), dst.Port())
	for i, comment := range []string{"", "rtt_ns=5", "\x1b[2J\nlast"} {
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, MigReq: true, PKey: 0xffff, DestQP: 17}}
		d := pcap.Datagram{Time: time.Now(), Src: src, Dst: dst, TrafficClass: uint8(i + 1), Comment: comment}
		if err := w.Write(&d, ps.Seal(p.Append(nil), 0)); err != nil {
			t.Fatal(err)
		}
	}
	other := pcap.Datagram{Time: time.Now(), Src: dst, Dst: src, Comment: "of another protocol"}
	if err := w.Write(&other, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, errOut, status := run(t, nil, path)
	lines := strings.Split(out, "\n")
	if status != cli.ExitOK || len(lines) != 6 || lines[5] != "" {
		t.Fatalf("status %d: %s\n%s", status, errOut, out)
	}
	for i, want := range []string{" Len=0", " Len=0", ` comment: "rtt_ns=5"`, " Len=0 CE", ` comment: "\x1b[2J\nlast"`} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d: %q, want …%q", i, lines[i], want)
		}
	}
	if short, _, _ := run(t, nil, "--info-only", path); strings.Contains(short, "comment") || strings.Count(short, "\n") != 3 {
		t.Errorf("info only:\n%s", short)
	}
}

// Verbs calls have lines of their own, quoted, and are frames.
func TestDumpShowsCalls(t *testing.T) {
	c := talk.New(t)
	c.Call("level=DEBUG msg=ibv_post_send wr_id=7 note=\x1b[31m", false)
	c.Send(roce.RCSendOnly, 5, 8)
	capture := c.Bytes()
	for _, o := range []struct {
		args, want string
		lines      int
	}{{"-", `    1    0.000000 call: "level=DEBUG msg=ibv_post_send wr_id=7 note=\x1b[31m"` + "\n    2    0.000001 192.0.2.1 → 192.0.2.2 RRoCE", 2},
		{"- --info-only", "    2    0.000000 192.0.2.1 → 192.0.2.2 RRoCE", 1}} {
		out, errOut, status := run(t, bytes.NewReader(capture), strings.Fields(o.args)...)
		if status != cli.ExitOK || !strings.HasPrefix(out, o.want) || strings.Count(out, "\n") != o.lines {
			t.Errorf("%s: status %d, %s\n%s", o.args, status, errOut, out)
		}
	}
}

// A frame that joins datagrams, as a host's own captures have them, has a line for each of them.
func TestDumpCutsBursts(t *testing.T) {
	c := talk.New(t)
	packet := func(o roce.Opcode, psn uint32, bytes int) roce.Packet {
		return roce.Packet{BTH: roce.BTH{Opcode: o, PSN: ib.NewPSN(psn)}, Payload: make([]byte, bytes)}
	}
	c.Comment = "rtt_ns=5"
	c.Burst(1, packet(roce.RCRDMAWriteMiddle, 1, 256), packet(roce.RCRDMAWriteMiddle, 2, 256), packet(roce.RCRDMAWriteLast, 3, 100))
	c.TRP(false, trp.Packet{Header: trp.Header{Opcode: trp.Request}})
	c.TRP(false, talk.TRPWrite(0, 0, false, 500), talk.TRPWrite(1, 0, true, 70))
	out, errOut, status := run(t, bytes.NewReader(c.Bytes()), "-")
	lines := strings.Split(out, "\n")
	if status != cli.ExitOK || len(lines) != 8 {
		t.Fatalf("status %d: %s\n%s", status, errOut, out)
	}
	for i, want := range []string{"    1 .* RRoCE 300 RC RDMA Write Middle .* PSN=1 .*Len=256$", "    1 .* RRoCE 300 .*\\[Bad ICRC\\]  PSN=2 Len=256$", "    1 .* RRoCE 144 RC RDMA Write Last .* PSN=3 .*Len=100$",
		"    1 .* comment: \"rtt_ns=5\"$", "    2 .* TRP .* Request ", "    3 .* DDP/RDMA 5.. .* PSN=0", "    3 .* DDP/RDMA 1.. .* PSN=1"} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d: %q, want %s", i, lines[i], want)
		}
	}
}
