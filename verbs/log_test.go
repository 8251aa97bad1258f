// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"runtime/trace"
	"strings"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// lines keeps the lines of a logger.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(b)))
	return len(b), nil
}

// take returns the lines so far that hold a text, without their times.
func (l *lines) take(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if _, s, _ := strings.Cut(s, " "); strings.Contains(s, text) {
			found = append(found, s)
		}
	}
	return found
}

// openLogged opens the loopback device with a logger. Other contexts of the process have it too.
func openLogged(t *testing.T, level slog.Level) (*verbs.Context, *lines) {
	t.Helper()
	var l lines
	c, err := verbs.Open(loopback.Device(t), verbs.WithLogger(slog.New(slog.NewTextHandler(&l, &slog.HandlerOptions{Level: level}))))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	return c, &l
}

// Calls, work requests, completions and what failed are lines that name the queue pair and the
// reason.
func TestLogger(t *testing.T) {
	c, l := openLogged(t, slog.LevelDebug)
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 8, SGList: []ib.SGE{b.mr.SGE(0, 64)}})
	check(t, err)
	wantStatus(t, a.post(verbs.SendWR{ID: 9, Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 6)}}).Status, ib.WCSuccess)
	b.poll(1)
	if _, err := c.CreateCQ(0, nil); err == nil {
		t.Error("a completion queue of no depth")
	}
	if _, err := a.qp.PostSend(verbs.SendWR{ID: 11, Opcode: ib.WRFlush}); err == nil {
		t.Error("a FLUSH of no type")
	}
	wantStatus(t, a.post(verbs.SendWR{ID: 10, Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 6)}}).Status, ib.WCRemAccessErr)

	dev, qpn, peer := "device="+c.Info().Name+" ", "qpn="+a.qp.QPN().String(), "qpn="+b.qp.QPN().String()
	for _, want := range []string{
		"level=INFO msg=ibv_open_device " + strings.TrimSpace(dev),
		"level=INFO msg=ibv_create_qp " + dev + "qp." + qpn + " qp.type=RC qp.state=RESET",
		"level=INFO msg=ibv_modify_qp " + dev + "qp." + qpn + " qp.type=RC qp.state=RTR qp.peer=",
		"level=DEBUG msg=ibv_post_send " + dev + qpn + " wr_id=0 opcode=RDMA_WRITE bytes=5",
		"level=DEBUG msg=completion " + dev + qpn + " wr_id=0 status=success opcode=RDMA_WRITE bytes=0",
		"level=DEBUG msg=ibv_post_recv " + dev + peer + " wr_id=8 bytes=64",
		"level=DEBUG msg=completion " + dev + peer + " wr_id=8 status=success opcode=RECV bytes=6",
		"level=WARN msg=ibv_create_cq " + dev + `error="depth: 0`,
		"level=WARN msg=ibv_post_send " + dev + qpn + " wr_id=11 opcode=FLUSH bytes=0 error=",
		"level=WARN msg=completion " + dev + qpn + ` wr_id=10 status="remote`,
	} {
		if len(l.take(want)) == 0 {
			t.Errorf("no line has %q", want)
		}
	}
	if got := l.take("wr_id=10 status="); len(got) != 1 || !strings.Contains(got[0], " reason=") || !strings.Contains(got[0], ":4791") {
		t.Errorf("no reason or no peer: %q", got)
	}
	if t.Failed() {
		t.Logf("%s", strings.Join(l.take(""), "\n"))
	}
}

// Lines below the logger's level are not written.
func TestLoggerLevel(t *testing.T) {
	_, l := openLogged(t, slog.LevelWarn)
	a, b := rcPair(t, 64)
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	if got := l.take(""); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// Vars has the devices and queue pairs that are open.
func TestVars(t *testing.T) {
	if v := verbs.Vars(); v != nil {
		t.Errorf("%v, with no device open", v)
	}
	a, _ := rcPair(t, 64)
	text, err := json.Marshal(verbs.Vars())
	check(t, err)
	var got struct {
		Devices []struct {
			Name       string
			QueuePairs []struct {
				QPN   ib.QPN
				State string
			} `json:"queue_pairs"`
		}
	}
	check(t, json.Unmarshal(text, &got))
	for _, d := range got.Devices {
		for _, q := range d.QueuePairs {
			if q.QPN == a.qp.QPN() && q.State == "RTS" && d.Name == a.ctx.Info().Name {
				return
			}
		}
	}
	t.Errorf("%s", text)
}

// An execution trace has a region for calls that post or wait.
func TestTraceRegions(t *testing.T) {
	var out bytes.Buffer
	if err := trace.Start(&out); err != nil {
		t.Skipf("another trace is taken: %v", err)
	}
	a, b := rcPair(t, 64)
	_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	check(t, err)
	_, err = a.cq.Wait(context.Background(), make([]ib.WC, 1))
	check(t, err)
	trace.Stop()
	for _, name := range []string{"verbs.QP.PostSend", "verbs.CQ.Wait"} {
		if !bytes.Contains(out.Bytes(), []byte(name)) {
			t.Errorf("no region %s", name)
		}
	}
}
