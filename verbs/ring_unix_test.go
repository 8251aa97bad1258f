// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package verbs_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/stats"
	"verbena/internal/sys/rundir"
	"verbena/internal/testkit/loopback"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
	"verbena/verbs"
)

// openRing opens the loopback device with a ring of packets. Other contexts of the process have it
// too.
func openRing(t testing.TB, file string) *verbs.Context {
	t.Helper()
	c, err := verbs.Open(loopback.Device(t), verbs.WithCaptureRing(file, 1<<20))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// opcodes counts the packets of a capture by opcode. Those of one PSN are one: each is sent and
// received, and beside load sent again.
func opcodes(t *testing.T, r *pcapread.Reader) map[roce.Opcode]int {
	t.Helper()
	type packet struct {
		opcode roce.Opcode
		psn    ib.PSN
	}
	seen, n := map[packet]bool{}, map[roce.Opcode]int{}
	for {
		d, err := r.Next()
		if err == io.EOF {
			return n
		}
		check(t, err)
		var p roce.Packet
		p.Parse(d.Payload)
		if k := (packet{p.BTH.Opcode, p.BTH.PSN}); !seen[k] {
			seen[k] = true
			n[k.opcode]++
		}
	}
}

// A failed completion writes the packets that explain it; flushed work requests write nothing.
// Beside load the responder's event may have a file of its own before that.
func TestRingOfAFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ring.pcapng")
	openRing(t, file)
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	check(t, verbs.FlushCapture())
	if _, err := os.Stat(file); err == nil {
		t.Fatal("a file without a failure")
	}
	_, err := a.qp.PostRecv(verbs.RecvWR{ID: 3, SGList: []ib.SGE{a.mr.SGE(0, 8)}})
	check(t, err)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()+1), ib.WCRemAccessErr)
	wantStatus(t, a.poll(1)[0].Status, ib.WCWRFlushErr)
	check(t, verbs.FlushCapture())
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if len(files) != 1 && len(files) != 2 {
		t.Fatalf("%q", files)
	}
	r, err := pcapread.Open(files[0]) // ring-2.pcapng is before ring.pcapng
	check(t, err)
	defer r.Close()
	if n := opcodes(t, r); n[roce.RCRDMAWriteOnly] != 2 || n[roce.RCAcknowledge] != 2 {
		t.Errorf("%v", n)
	}
}

// `verbena stat dump` fetches the packets, and SIGUSR1 writes a file.
func TestRingOnRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ring.pcapng")
	openRing(t, file)
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	dir, _ := rundir.Dir()
	check(t, stats.Dump(t.Context(), dir, os.Getpid(), func(p stats.Packets, in *io.LimitedReader) error {
		r, err := pcapread.NewReader(in)
		check(t, err)
		if n := opcodes(t, r); n[roce.RCRDMAWriteOnly] != 1 || p.Count < 4 {
			t.Errorf("%+v: %v", p, n)
		}
		return nil
	}))
	self, err := os.FindProcess(os.Getpid())
	check(t, err)
	check(t, self.Signal(syscall.SIGUSR1))
	for end := time.Now().Add(20 * time.Second); ; {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("SIGUSR1 wrote no file")
		}
		time.Sleep(time.Millisecond)
	}
	check(t, verbs.FlushCapture())
	r, err := pcapread.Open(file)
	check(t, err)
	defer r.Close()
	if n := opcodes(t, r); n[roce.RCRDMAWriteOnly] != 1 {
		t.Errorf("%v", n)
	}
}

func TestRingRefused(t *testing.T) {
	dev, dir := loopback.Device(t), t.TempDir()
	for text, o := range map[string][]verbs.Option{
		"1000 bytes: must be from 1048576 to 1073741824": {verbs.WithCaptureRing(filepath.Join(dir, "x"), 1000)},
		"there is no directory":                          {verbs.WithCaptureRing(filepath.Join(dir, "none", "x"), 1<<20)},
		"give one of them":                               {verbs.WithCaptureRing(filepath.Join(dir, "x"), 1<<20), verbs.WithCapture(filepath.Join(dir, "y"))},
	} {
		if _, err := verbs.Open(dev, o...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	file := filepath.Join(dir, "x")
	openRing(t, file)
	for _, o := range []verbs.Option{verbs.WithCaptureRing(file, 2<<20), verbs.WithCaptureRing(file+"2", 1<<20)} {
		_, err := verbs.Open(dev, o)
		wantError(t, err, syscall.EBUSY, "ring")
	}
	c, err := verbs.Open(dev, verbs.WithCaptureRing(file, 1<<20))
	check(t, err)
	check(t, c.Close())
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("%q", left)
	}
}

// A ring allocates nothing for a packet. The comments on the state of the path do, once in a
// millisecond at most: a WRITE of 64 KiB, whose 64 packets leave and arrive, may have a few.
func TestRingDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates: run without -race")
	}
	openRing(t, filepath.Join(t.TempDir(), "ring.pcapng"))
	a, b := newEnd(t, ib.QPTypeRC, 64<<10), newEnd(t, ib.QPTypeRC, 64<<10)
	connect(t, a, b, ib.MTU1024)
	list, wc := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}}, make([]ib.WC, 1)
	once := func() {
		a.qp.PostSend(list...)
		for n := 0; n == 0; {
			n, _ = a.cq.Poll(wc)
		}
	}
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(200, once); n > 16 {
		t.Errorf("%v allocations for a WRITE of 64 packets", n)
	}
}

// BenchmarkCaptured writes with no capture, a ring, and a file of all packets.
func BenchmarkCaptured(b *testing.B) {
	for _, n := range []int{64, 64 << 10} {
		for _, kind := range []string{"none", "ring", "file"} {
			b.Run(fmt.Sprintf("%d/%s", n, kind), func(b *testing.B) {
				opt := verbs.WithoutLocalPath()
				switch file := filepath.Join(b.TempDir(), "x.pcapng"); kind {
				case "ring":
					opt = verbs.WithCaptureRing(file, 64<<20)
				case "file":
					opt = verbs.WithCapture(file)
				}
				c, err := verbs.Open(loopback.Device(b), opt)
				check(b, err)
				b.Cleanup(func() { check(b, c.Close()) })
				writes(b, n)
			})
		}
	}
}
