// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// joinLinks makes this process have both ends of a link: ntb0 and ntb1.
func joinLinks(t testing.TB, kind string) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "link")
	host := fmt.Sprintf("127.77.%d.%d:7471", rand.IntN(256), 1+rand.IntN(254)) // of its own
	links := map[string]string{
		"shm": "10.99.0.1+10.99.0.2=shm:" + at + ",10.99.0.1+10.99.0.2=shm:" + at,
		"tcp": "10.99.0.1=s:" + host + ",10.99.0.2=c:" + host,
		"map": "10.99.0.1=map:0:" + at + ",10.99.0.2=map:1:" + at,
	}
	if kind == "map" {
		check(t, os.WriteFile(at, nil, 0o600))
		check(t, os.Truncate(at, 64<<20))
	}
	check(t, verbs.UseLinks(links[kind]))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
}

// ntbEnds returns two queue pairs in RTS that are connected over a link.
func ntbEnds(t testing.TB, kind string, size int, change ...func(*verbs.QPInitAttr)) (a, b *end) {
	t.Helper()
	joinLinks(t, kind)
	a, b = newEndOn(t, "ntb0", ib.QPTypeRC, size, change...), newEndOn(t, "ntb1", ib.QPTypeRC, size, change...)
	awaitPort(t, a, ib.PortActive)
	awaitPort(t, b, ib.PortActive)
	connect(t, a, b, ib.MTU4096)
	awaitLink(t, a)
	awaitLink(t, b)
	return a, b
}

// awaitLink waits until an end's link is open. In a shared-memory hub a link opens when a queue
// pair gets its peer.
func awaitLink(t testing.TB, e *end) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); e.counter("link_ups") == 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("the link of %s is down after 20 s", e.ctx.Info().Name)
		}
	}
}

func awaitPort(t testing.TB, e *end, want ib.PortState) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p, err := e.ctx.QueryPort(1)
		check(t, err)
		if p.State == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the port of %s is %v after 20 s", e.ctx.Info().Name, p.State)
		}
	}
}

// inWindow moves an end's memory into the window.
func (e *end) inWindow() {
	e.t.Helper()
	check(e.t, e.mr.Dereg())
	b, err := e.ctx.AllocBuffer(len(e.buf))
	check(e.t, err)
	e.buf = b.Bytes()
	e.mr, err = e.pd.RegMR(e.buf, allAccess)
	check(e.t, err)
}

func eachNTB(t *testing.T, f func(t *testing.T, kind string)) {
	for _, kind := range []string{"shm", "tcp", "map"} {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// TestNTBSpeaksTheSameVerbs runs the operations that all kinds have.
func TestNTBSpeaksTheSameVerbs(t *testing.T) {
	eachNTB(t, func(t *testing.T, kind string) {
		a, b := ntbEnds(t, kind, 1<<20)
		pattern(a.buf, 1)
		_, err := b.qp.PostRecv(verbs.RecvWR{ID: 5, SGList: []ib.SGE{b.mr.SGE(0, 100)}}, verbs.RecvWR{ID: 6}, verbs.RecvWR{ID: 7})
		check(t, err)
		half := 1 << 19
		_, err = a.qp.PostSend(
			verbs.SendWR{ID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, half)}, RemoteAddr: b.mr.Addr() + 4096, RKey: b.mr.RKey()},
			verbs.SendWR{ID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("hello")},
			verbs.SendWR{ID: 3, Opcode: ib.WRSendWithImm, Flags: ib.SendSignaled, ImmData: 77},
			verbs.SendWR{ID: 4, Opcode: ib.WRRDMAWriteWithImm, Flags: ib.SendSignaled, ImmData: 78, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 128, RKey: b.mr.RKey()},
			verbs.SendWR{ID: 5, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled | ib.SendFence, SGList: []ib.SGE{a.mr.SGE(half, 1000)}, RemoteAddr: b.mr.Addr() + 4096, RKey: b.mr.RKey()},
			verbs.SendWR{ID: 6, Opcode: ib.WRAtomicFetchAndAdd, Flags: ib.SendSignaled | ib.SendFence, SGList: []ib.SGE{a.mr.SGE(half+1024, 8)}, RemoteAddr: b.mr.Addr() + 1024, RKey: b.mr.RKey(), CompareAdd: 5})
		check(t, err)
		for i, wc := range a.poll(6) {
			if wc.Status != ib.WCSuccess || wc.WRID != uint64(i+1) {
				t.Fatalf("completion %d: %+v", i, wc)
			}
		}
		got := b.poll(3)
		if got[0].WRID != 5 || got[0].ByteLen != 5 || got[1].ImmData != 77 || got[2].Opcode != ib.WCRecvRDMAWithImm || got[2].ImmData != 78 || got[2].ByteLen != 8 {
			t.Errorf("received: %+v", got)
		}
		if !bytes.Equal(b.buf[4096:4096+half], a.buf[:half]) || string(b.buf[:5]) != "hello" || !bytes.Equal(b.buf[128:136], a.buf[:8]) || b.buf[1024] != 5 {
			t.Error("bytes are not where they belong")
		}
		if !bytes.Equal(a.buf[half:half+1000], a.buf[:1000]) {
			t.Error("what was read back differs")
		}
		if n, ups := a.counter("rdma_sends"), a.counter("link_ups"); n != 6 || ups != 1 {
			t.Errorf("counted: %d messages, %d times up", n, ups)
		}
	})
}

// TestNTBWindow has peers write straight into registered memory, and no more when it
// is deregistered.
func TestNTBWindow(t *testing.T) {
	eachNTB(t, func(t *testing.T, kind string) {
		a, b := ntbEnds(t, kind, 3<<20)
		pattern(a.buf, 1)
		b.inWindow()
		for _, n := range []int{1, 8, 300, 4096, 1 << 20, 3 << 20} {
			clear(b.buf)
			_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			check(t, err)
			a.one()
			if !bytes.Equal(b.buf[:n], a.buf[:n]) || bytes.Count(b.buf[n:], []byte{0}) != len(b.buf)-n {
				t.Errorf("a WRITE of %d bytes is not where it belongs", n)
			}
		}
		if placed := a.counter("sent_placed_bytes"); placed < 4<<20 {
			t.Errorf("%d bytes went straight to their place", placed)
		}
		key := b.mr.RKey()
		check(t, b.mr.Dereg())
		clear(b.buf)
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 4096)}, RemoteAddr: b.mr.Addr(), RKey: key})
		check(t, err)
		if wc := a.poll(1); wc[0].Status != ib.WCRemAccessErr {
			t.Errorf("a WRITE to a region that is gone: %+v", wc[0])
		}
		if bytes.Count(b.buf, []byte{0}) != len(b.buf) {
			t.Error("it has arrived all the same")
		}
	})
}

// TestNTBRereg registers, changes and deregisters memory in the
// window while nobody connects, and uses the last key.
func TestNTBRereg(t *testing.T) {
	a, b := ntbEnds(t, "shm", 1<<16)
	pattern(a.buf, 1)
	b.inWindow()
	for range 40 {
		check(t, b.mr.Rereg(ib.ReregTranslation, nil, b.buf, 0))
	}
	_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<16)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	check(t, err)
	a.one()
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("a WRITE under the last key is not where it belongs")
	}
}

// TestNTBSRQ takes receives from a shared queue.
func TestNTBSRQ(t *testing.T) {
	joinLinks(t, "shm")
	c, err := verbs.Open("ntb1")
	check(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	check(t, err)
	srq, err := pd.CreateSRQ(ib.SRQAttr{MaxWR: 8, MaxSGE: 1})
	check(t, err)
	cq, err := c.CreateCQ(16, nil)
	check(t, err)
	a := newEndOn(t, "ntb0", ib.QPTypeRC, 4096)
	b := &end{t: t, ctx: c, pd: pd, cq: cq, buf: make([]byte, 4096)}
	b.qp, err = pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	check(t, err)
	b.mr, err = pd.RegMR(b.buf, allAccess)
	check(t, err)
	connect(t, a, b, ib.MTU1024)
	_, err = srq.PostRecv(verbs.RecvWR{ID: 9, SGList: []ib.SGE{b.mr.SGE(0, 64)}})
	check(t, err)
	_, err = a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("shared")})
	check(t, err)
	if wc := b.one(); wc.WRID != 9 || string(b.buf[:6]) != "shared" {
		t.Errorf("%+v %q", wc, b.buf[:6])
	}
	a.one()
}

// TestNTBRNR has a SEND wait for its receive.
func TestNTBRNR(t *testing.T) {
	a, b := ntbEnds(t, "shm", 4096)
	_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("early")})
	check(t, err)
	for end := time.Now().Add(10 * time.Second); b.counter("sent_rnr") == 0; {
		b.cq.Poll(make([]ib.WC, 1))
		if time.Now().After(end) {
			t.Fatal("nobody was told that there is no receive")
		}
	}
	_, err = b.qp.PostRecv(verbs.RecvWR{ID: 1, SGList: []ib.SGE{b.mr.SGE(0, 64)}})
	check(t, err)
	b.one()
	a.one()
}

// TestNTBWithoutPolling has the background goroutine serve one-sided requests, and wake threads
// that wait for events.
func TestNTBWithoutPolling(t *testing.T) {
	eachNTB(t, func(t *testing.T, kind string) {
		a, b := ntbEnds(t, kind, 4096)
		ch, err := a.ctx.CreateCompChannel()
		check(t, err)
		cq, err := a.ctx.CreateCQ(4, ch)
		check(t, err)
		other := &end{t: t, ctx: a.ctx, pd: a.pd, cq: cq, buf: a.buf, mr: a.mr}
		other.qp, err = a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
		check(t, err)
		peer := *b
		peer.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: b.cq, RecvCQ: b.cq})
		check(t, err)
		connect(t, other, &peer, ib.MTU1024)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i := range 50 {
			check(t, cq.RequestNotify(false))
			pattern(a.buf, byte(i))
			_, err = other.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 4096)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			check(t, err)
			_, err := ch.Wait(ctx)
			check(t, err)
			other.one()
			if !bytes.Equal(a.buf, b.buf) {
				t.Fatalf("round %d: the bytes differ", i)
			}
			peer.sync()
			if i%10 == 0 {
				time.Sleep(2 * time.Millisecond) // let everybody fall asleep
			}
		}
	})
}

// TestNTBPeerGoes closes one end while the other has work posted.
func TestNTBPeerGoes(t *testing.T) {
	eachNTB(t, func(t *testing.T, kind string) {
		if kind == "map" {
			t.Skip("a silent peer is given up after seconds: internal/ntb/backend tests that")
		}
		joinLinks(t, kind)
		a := newEndOn(t, "ntb0", ib.QPTypeRC, 1<<16)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		events := make(chan verbs.AsyncEvent, 16)
		go func() {
			for {
				e, err := a.ctx.AsyncEvent(ctx)
				if err != nil {
					return
				}
				events <- e
			}
		}()
		next := func() verbs.AsyncEvent {
			select {
			case e := <-events:
				return e
			case <-ctx.Done():
				t.Fatal("no event")
			}
			return verbs.AsyncEvent{}
		}
		a.inWindow()
		for round := range 3 {
			c, err := verbs.Open("ntb1")
			check(t, err)
			pd, err := c.AllocPD()
			check(t, err)
			cq, err := c.CreateCQ(16, nil)
			check(t, err)
			b := &end{t: t, ctx: c, pd: pd, cq: cq, buf: make([]byte, 1<<16)}
			b.qp, err = pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
			check(t, err)
			b.mr, err = pd.RegMR(b.buf, allAccess)
			check(t, err)
			awaitPort(t, a, ib.PortActive)
			connect(t, a, b, ib.MTU1024)
			pattern(b.buf, byte(round))
			_, err = b.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{b.mr.SGE(0, 1<<16)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
			check(t, err)
			b.one()
			if !bytes.Equal(a.buf, b.buf) {
				t.Errorf("round %d: the region is not what it was", round)
			}
			_, err = a.qp.PostRecv(verbs.RecvWR{ID: 3})
			check(t, err)
			check(t, c.Close())
			if wc := a.poll(1); wc[0].Status != ib.WCWRFlushErr || wc[0].WRID != 3 {
				t.Errorf("round %d: %+v", round, wc)
			}
			seen := map[ib.EventType]int{}
			shared := kind == "shm" // whose port does not go down
			for seen[ib.EventPortErr] == 0 && !shared || seen[ib.EventQPFatal] == 0 {
				e := next()
				seen[e.Type]++
				if e.Type == ib.EventQPFatal && e.QP != a.qp || e.Type == ib.EventPortErr && (e.Port != 1 || shared) {
					t.Errorf("event %+v", e)
				}
			}
			want := ib.PortDown
			if shared {
				want = ib.PortActive
			}
			awaitPort(t, a, want)
			if a.qp.State() != ib.QPErr {
				t.Errorf("the queue pair is in %v", a.qp.State())
			}
			check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
		}
	})
}

// TestNTBRefusals wants each refusal to name its cause.
func TestNTBRefusals(t *testing.T) {
	wantError(t, verbs.UseLinks("shm:"), syscall.EINVAL, "links")
	for _, kind := range []string{"shm", "tcp"} {
		t.Run(kind, func(t *testing.T) { testNTBRefusals(t, kind) })
	}
}

func testNTBRefusals(t *testing.T, kind string) {
	joinLinks(t, kind)
	a := newEndOn(t, "ntb0", ib.QPTypeRC, 64)
	b := newEndOn(t, "ntb1", ib.QPTypeRC, 64)
	_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: a.cq, RecvCQ: a.cq})
	wantError(t, err, syscall.EOPNOTSUPP, "attr.Type")
	_, err = a.ctx.OpenXRCD(nil, 0)
	wantError(t, err, syscall.EOPNOTSUPP, "XRCD")
	awaitPort(t, a, ib.PortActive)
	awaitPort(t, b, ib.PortActive)
	table, err := a.ctx.GIDTable(1)
	check(t, err)
	if len(table) != 2 || table[1].GID.Addr().String() != "10.99.0.1" || !table[0].GID.Addr().IsLinkLocalUnicast() {
		t.Errorf("GIDs %+v", table)
	}
	toInit(t, a)
	rtr := func(dst string) error {
		g := ib.GIDFromAddr(netip.MustParseAddr(dst))
		attr := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: b.qp.QPN(), AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: g}}}
		return a.qp.Modify(&attr, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		if err = rtr("10.99.0.3"); err != nil {
			break
		}
		// The peer had not told its addresses yet.
		check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
		toInit(t, a)
		if time.Now().After(end) {
			t.Fatal("an address that nobody has is good enough")
		}
	}
	wantError(t, err, syscall.EINVAL, "AH.GRH.DGID")
	if kind != "shm" { // where a process connects to those of its own side, too
		wantError(t, rtr("10.99.0.1"), syscall.EINVAL, "AH.GRH.DGID")
	}
	check(t, rtr("10.99.0.2"))
}

// TestNTBKilledProcess kills the process at the other end again and again, in mid-transfer. Each
// time the posted requests are flushed. The same queue pair and memory then serve the next process.
func TestNTBKilledProcess(t *testing.T) {
	links := "shm:" + filepath.Join(t.TempDir(), "link")
	check(t, verbs.UseLinks(links))
	t.Cleanup(func() { check(t, verbs.UseLinks("")) })
	e := newEndOn(t, "ntb0", ib.QPTypeRC, 4096)
	e.inWindow()
	pattern(e.buf, 9)
	want := bytes.Clone(e.buf)
	for round := range 6 {
		p := startPeerOn(t, "ntb0", "VERBENA_NTB="+links)
		p.end = e
		p.join(t, ib.AHAttr{PortNum: 1})
		for range 3 {
			wantStatus(t, p.send(), ib.WCSuccess)
		}
		killed := make(chan error, 1)
		go func() {
			time.Sleep(time.Duration(round) * 100 * time.Microsecond)
			killed <- p.cmd.Process.Kill()
		}()
		status := ib.WCSuccess
		for n := 0; status == ib.WCSuccess && n < 50; n++ { // it has some receives more
			status = p.send()
		}
		check(t, <-killed)
		p.cmd.Wait()
		if status == ib.WCSuccess {
			status = p.send()
		}
		wantStatus(t, status, ib.WCWRFlushErr)
		if !bytes.Equal(e.buf, want) {
			t.Fatalf("round %d: memory that nobody was to write has changed", round)
		}
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	}
	if n := e.counter("link_ups"); n < 6 {
		t.Errorf("the link came up %d times", n)
	}
}

// TestNTBMemoryGoesWithItsContext: contexts of a link share its key table.
func TestNTBMemoryGoesWithItsContext(t *testing.T) {
	joinLinks(t, "shm")
	memoryGoesWithItsContext(t, "ntb0")
}

// A link has no packets: a capture is refused before there is a file.
func TestNTBIsNotCaptured(t *testing.T) {
	joinLinks(t, "shm")
	file := filepath.Join(t.TempDir(), "capture.pcapng")
	_, err := verbs.Open("ntb0", verbs.WithCapture(file))
	wantError(t, err, syscall.EINVAL, "capture")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file of the capture: %v", err)
	}
	_, err = verbs.Open("ntb0", verbs.WithFaults("loss=1%"))
	wantError(t, err, syscall.EINVAL, "faults")
}
