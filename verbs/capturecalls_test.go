// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/internal/timeline"
	"verbena/internal/wire/pcapread"
	"verbena/verbs"
)

// readTimeline reads a capture as `verbena view` does.
func readTimeline(t *testing.T, file string) *timeline.Timeline {
	t.Helper()
	r, err := pcapread.Open(file)
	check(t, err)
	defer r.Close()
	tl, err := timeline.Read(context.Background(), timeline.Source{Name: file, Reader: r})
	check(t, err)
	check(t, tl.Files[0].Err)
	return tl
}

// The capture of a run has the calls of each operation, in order with its packets, and a log beside
// it has the same ones.
func TestCaptureCalls(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "calls.pcapng"), &bytes.Buffer{}
	l := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := verbs.Open(loopback.Device(t), verbs.WithCapture(file), verbs.WithCaptureCalls(), verbs.WithLogger(l))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	_, err = a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGList: []ib.SGE{a.mr.SGE(0, 7)}})
	check(t, err)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	wantStatus(t, a.write(6, b.mr.Addr(), b.mr.RKey()+1), ib.WCRemAccessErr)
	check(t, verbs.FlushCapture())
	tl := readTimeline(t, file)
	if len(tl.Conns) != 1 || len(tl.Ops) != 4 {
		t.Fatalf("%d connections, %d operations", len(tl.Conns), len(tl.Ops))
	}
	for i, o := range tl.Ops {
		if i == 1 && o.Posted != timeline.None && o.Completed == timeline.None && strings.HasSuffix(tl.Calls[o.Posted].Text, " bytes=7 signaled=false") {
			continue
		}
		if o.Posted == timeline.None || o.Completed == timeline.None {
			t.Fatalf("%+v has no calls in %+v", o, tl.Calls)
		}
		post, done := tl.Calls[o.Posted], tl.Calls[o.Completed]
		status := "status=success"
		if i == 3 {
			status = "status=remote access error"
		}
		if post.Time > o.Start || done.Time < o.End || !strings.Contains(post.Text, "opcode=RDMA_WRITE bytes=") || !strings.Contains(done.Text, status) || done.Failed != (i == 3) {
			t.Errorf("%+v: %+v, %+v", o, post, done)
		}
	}
	states := 0
	for _, c := range tl.Calls {
		if c.Name == "ibv_modify_qp" && strings.Contains(c.Text, "qp.state=RTS") {
			states++
		}
	}
	if n := strings.Count(log.String(), "\n"); states < 2 || n < len(tl.Calls) {
		t.Errorf("%d changes to RTS, %d lines of the log, %d calls", states, n, len(tl.Calls))
	}
}

// A ring has the calls too: the completion that has it written is in it.
func TestRingCalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ring.pcapng")
	c, err := verbs.Open(loopback.Device(t), verbs.WithCaptureRing(file, 1<<20), verbs.WithCaptureCalls())
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(6, b.mr.Addr(), b.mr.RKey()+1), ib.WCRemAccessErr)
	check(t, verbs.FlushCapture())
	tl := readTimeline(t, file)
	if len(tl.Ops) != 1 || tl.Ops[0].Completed == timeline.None || !tl.Calls[tl.Ops[0].Completed].Failed {
		t.Errorf("%+v, %+v", tl.Ops, tl.Calls)
	}
}

// Calls need a capture.
func TestCaptureCallsAlone(t *testing.T) {
	_, err := verbs.Open(loopback.Device(t), verbs.WithCaptureCalls())
	wantError(t, err, syscall.EINVAL, "capture calls")
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	defer c.Close()
	_, err = verbs.Open(loopback.Device(t), verbs.WithCaptureCalls())
	wantError(t, err, syscall.EBUSY, "capture calls")
}
