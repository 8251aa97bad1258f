// SPDX-License-Identifier: BSD-2-Clause

package pcap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

var callAt = time.Unix(1700000000, 123456789)

// read returns the lines of a capture: its calls, and the sizes of its datagrams.
func read(b []byte) (lines []string, err error) {
	r, err := pcapread.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.OnCall = func(c pcap.Call) {
		lines = append(lines, fmt.Sprintf("%d: %d %v %s", r.Frame(), c.Time.Sub(callAt), c.Failed, c.Text))
	}
	for {
		d, _, err := r.NextPacket()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%d: %d bytes", r.Frame(), len(d.Payload)))
	}
}

// callsAndPackets returns a capture of three calls around two packets.
func callsAndPackets(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	w := pcap.NewWriter(&file, "verbena0")
	packet := packet(flows[0].src, flows[0].dst, 0, 64)
	d := &pcap.Datagram{Time: callAt, Src: flows[0].src, Dst: flows[0].dst}
	for i, text := range []string{"msg=ibv_post_send wr_id=1", "two\nlines\x00", strings.Repeat("x", 1<<15)} {
		if i > 0 {
			if err := w.Write(d, packet); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteCall(&pcap.Call{Time: callAt.Add(time.Duration(i)), Text: text, Failed: i == 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteCall(&pcap.Call{}); err != pcap.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	return file.Bytes()
}

// Calls keep their places between packets and their nanoseconds. All are frames.
func TestCalls(t *testing.T) {
	got, err := read(callsAndPackets(t))
	want := []string{"1: 0 false msg=ibv_post_send wr_id=1", "2: 80 bytes", "3: 1 true two lines ", "4: 80 bytes", "5: 2 false " + strings.Repeat("x", 1<<14)}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\n%.200q, want\n%.200q", err, got, want)
	}
}

// Wireshark counts calls as frames, as a Reader does, and shows their text and time.
func TestWiresharkShowsCalls(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	file := filepath.Join(t.TempDir(), "calls.pcapng")
	if err := os.WriteFile(file, callsAndPackets(t), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", file, "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "systemd_journal.message").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "1\t1700000000.123456") || !strings.Contains(lines[0], "msg=ibv_post_send wr_id=1") ||
		!strings.HasPrefix(lines[2], "3\t") || !strings.Contains(lines[2], "two lines") {
		t.Errorf("%.600q", lines)
	}
}

// A ring counts its packets without the calls, gives up the oldest of both, and says which calls it
// left out.
func TestRingOfCalls(t *testing.T) {
	r := pcap.NewRing(0, "ring")
	put := func(i int) {
		t.Helper()
		if err := r.WriteCall(&pcap.Call{Time: callAt, Text: fmt.Sprint("msg=", i)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Write(&pcap.Datagram{Time: callAt, Src: flows[0].src, Dst: flows[0].dst}, make([]byte, 1000+i%7)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 {
		put(i)
	}
	c := r.Hold()
	if err := r.Write(&pcap.Datagram{Time: callAt, Src: flows[0].src, Dst: flows[0].dst}, make([]byte, 4000)); err != nil { // no room
		t.Fatal(err)
	}
	put(3000)
	put(3001)
	var file bytes.Buffer
	c.WriteTo(&file)
	put(3002)
	c.Release()
	lines, err := read(file.Bytes())
	calls := strings.Count(strings.Join(lines, "\n"), "msg=")
	if err != nil || calls < 800 || len(lines)-calls != c.Packets || c.Span < time.Since(callAt)-time.Hour {
		t.Errorf("%d calls, %d lines, %d packets of %v: %v", calls, len(lines), c.Packets, c.Span, err)
	}
	c = r.Hold()
	defer c.Release()
	file.Reset()
	c.WriteTo(&file)
	lines, err = read(file.Bytes())
	last := strings.Join(lines[len(lines)-4:], "\n")
	if err != nil || !strings.Contains(last, `true level=WARN msg="calls are missing" calls=2`) || !strings.Contains(last, "msg=3002") {
		t.Errorf("%v\n%s", err, last)
	}
}

// block returns a block of systemd's journal with lengths of its own.
func block(order binary.AppendByteOrder, entry string, first, last uint32) (b []byte) {
	b = order.AppendUint32(b, pcap.BlockJournal)
	b = order.AppendUint32(b, first)
	b = append(b, entry...)
	return order.AppendUint32(b, last)
}

// Blocks with nonsense in them end the capture, or are passed over.
func TestHostileCalls(t *testing.T) {
	whole := callsAndPackets(t)
	var empty bytes.Buffer
	pcap.NewWriter(&empty, "x").Flush()
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		block  []byte
		failed bool
		lines  int // besides those of whole
	}{
		{"no entry", block(le, "", 12, 12), false, 0},
		{"another's", block(le, "MESSAGE=x\n\x00\x00", 24, 24), false, 0},
		{"no number", block(le, "VERBENA_TIME_NS=9999999999999999999\nMESSAGE=x\n\x00\x00", 60, 60), false, 0},
		{"a call", block(le, "MESSAGE=<b>\nVERBENA_TIME_NS=1\n\x00\x00", 44, 44), false, 1},
		{"large", block(le, strings.Repeat("y", 1<<20), 1<<20+12, 1<<20+12), false, 0},
		{"two lengths", block(le, "", 12, 16), true, 0},
		{"too short", block(le, "", 8, 8), true, 0},
		{"odd", block(le, "abcd", 15, 15), true, 0},
		{"huge", block(le, "abcd", 1<<32-4, 16), true, 0},
		{"the other order", block(binary.BigEndian, "abcd", 16, 16), true, 0},
	} {
		got, err := read(append(append(bytes.Clone(empty.Bytes()), c.block...), whole...))
		if c.failed != (err != nil) || !c.failed && len(got) != 5+c.lines || c.failed && len(got) != 0 {
			t.Errorf("%s: %d lines, %v", c.name, len(got), err)
		}
	}
	for n := range whole[:600] { // cut anywhere
		if _, err := read(whole[:n]); errors.Is(err, io.EOF) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}
