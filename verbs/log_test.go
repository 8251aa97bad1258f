// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

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
	if _, err := c.QueryPort(1); err != nil {
		t.Error(err)
	}
	if _, err := c.QueryPort(9); err == nil {
		t.Error("a port 9")
	}
	a.qp.Query()
	n, err := c.CreateCounters()
	check(t, err)
	check(t, n.Read(make([]uint64, 1)))
	check(t, n.Destroy())
	if _, err := b.qp.PostRecv(verbs.RecvWR{ID: 12, SGList: make([]ib.SGE, 99)}); err == nil {
		t.Error("a receive of 99 elements")
	}
	fresh := newEnd(t, ib.QPTypeRC, 64)
	if _, err := fresh.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend}); err == nil {
		t.Error("a send in INIT or before")
	}
	before := len(l.take("level=WARN"))
	if err := fresh.qp.BindMW(nil, verbs.BindWR{ID: 13}); err == nil {
		t.Error("a bind in INIT or before")
	}
	if got := l.take("level=WARN")[before:]; len(got) != 1 || !strings.Contains(got[0], "msg=ibv_bind_mw ") {
		t.Errorf("%q", got)
	}
	if err := a.qp.Modify(nil, 0); err == nil {
		t.Error("no attributes")
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
		"level=WARN msg=ibv_post_send " + dev + qpn + " wr_id=11 opcode=FLUSH bytes=0 peer=127.0.0.1:4791 error=",
		"level=WARN msg=ibv_post_recv " + dev + peer + " wr_id=12 bytes=0 peer=127.0.0.1:4791 error=",
		"level=WARN msg=ibv_post_send " + dev + "qp.qpn=" + fresh.qp.QPN().String() + " qp.type=RC qp.state=",
		"level=DEBUG msg=ibv_query_port " + strings.TrimSpace(dev),
		"level=WARN msg=ibv_query_port " + dev + "error=",
		"level=DEBUG msg=ibv_read_counters " + strings.TrimSpace(dev),
		"level=DEBUG msg=ibv_query_qp " + strings.TrimSpace(dev),
		"level=WARN msg=completion " + dev + qpn + ` wr_id=10 status="remote`,
		"level=WARN msg=ibv_modify_qp " + dev + "qp." + qpn + " qp.type=RC qp.state=RTS qp.peer=",
		`level=WARN msg="asynchronous event" ` + dev + `type="local access violation work queue error" ` + peer + ` peer=127.0.0.1:4791 reason=`,
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

// XRC_RECV queue pairs have their lines, whichever call makes them.
func TestLoggerOfXRC(t *testing.T) {
	c, l := openLogged(t, slog.LevelInfo)
	x, err := c.OpenXRCD(nil, os.O_CREATE)
	check(t, err)
	defer func() { check(t, x.Close()) }()
	pd, err := c.AllocPD()
	check(t, err)
	defer func() { check(t, pd.Dealloc()) }()
	for i, create := range []func(*verbs.QPInitAttr) (*verbs.QP, error){x.CreateQP, pd.CreateQP} {
		qp, err := create(&verbs.QPInitAttr{Type: ib.QPTypeXRCRecv, XRCD: x})
		check(t, err)
		check(t, qp.Destroy())
		if got := l.take("msg=ibv_create_qp "); len(got) != i+1 || !strings.Contains(got[i], " qp.type=XRC_RECV ") {
			t.Errorf("call %d: %q", i, got)
		}
	}
	if _, err := x.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC}); err == nil {
		t.Error("an RC queue pair of an XRC domain")
	}
	if got := l.take("level=WARN msg=ibv_create_qp "); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// serial is a handler that is called one at a time, as many are. One that writes the change of a
// queue pair goes on when another line waits.
type serial struct {
	slog.Handler
	*turns
}

type turns struct {
	t        *testing.T
	lock     chan struct{}
	changing chan struct{} // ends when a change is written; nil until it counts
	posting  chan struct{} // ends with the next request posted
}

func (s serial) WithAttrs(a []slog.Attr) slog.Handler {
	return serial{s.Handler.WithAttrs(a), s.turns}
}

func (s serial) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "ibv_post_send" {
		close(s.posting)
	}
	select {
	case s.lock <- struct{}{}:
	case <-time.After(5 * time.Second):
		s.t.Errorf("%s waits for the handler without end", r.Message)
		return nil
	}
	defer func() { <-s.lock }()
	if r.Message == "ibv_modify_qp" && s.changing != nil {
		close(s.changing)
		<-s.posting
	}
	return s.Handler.Handle(ctx, r)
}

// Handlers with a lock of their own do not wait for queue pairs, which wait for them.
func TestLoggerWithALock(t *testing.T) {
	s := serial{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}),
		&turns{t: t, lock: make(chan struct{}, 1), posting: make(chan struct{})}}
	c, err := verbs.Open(loopback.Device(t), verbs.WithLogger(slog.New(s)))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	a, b := rcPair(t, 64)
	s.changing = make(chan struct{})
	changed := make(chan error)
	go func() {
		changed <- a.qp.Modify(&ib.QPAttr{State: ib.QPRTS, MinRNRTimer: 5}, ib.QPStateAttr|ib.QPMinRNRTimer)
	}()
	<-s.changing
	wantStatus(t, a.write(5, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	check(t, <-changed)
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
