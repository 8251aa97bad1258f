// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"errors"
	"hash/crc32"
	"strconv"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// target has the box make an XRC_RECV queue pair.
func (b *box) target() ib.QPN {
	b.t.Helper()
	n, err := strconv.ParseUint(b.do("target", 0, 0, 0), 10, 32)
	check(b.t, err)
	return ib.QPN(n)
}

// nextEvent returns the next event of a context.
func nextEvent(t *testing.T, c *verbs.Context) verbs.AsyncEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e, err := c.AsyncEvent(ctx)
	check(t, err)
	return e
}

// TestXRCOpenOfOtherProcess opens a queue pair of another process, connects it and uses it, also
// after that process has destroyed its own handle.
func TestXRCOpenOfOtherProcess(t *testing.T) {
	f := domainFile(t)
	here := newStation(t, 4096, f)
	b := startBox(t, f.Name())
	to, err := here.xrcd.OpenQP(b.target())
	check(t, err)
	if to.QPN() == 0 || to.Type() != ib.QPTypeXRCRecv || to.State() != ib.QPReset {
		t.Fatalf("QP %v, %v, %v", to.QPN(), to.Type(), to.State())
	}
	from := newEnd(t, ib.QPTypeXRCSend, 4096)
	pattern(from.buf, 3)
	connectXRC(t, from, here.ctx, to)
	attr, _ := to.Query()
	if attr.State != ib.QPRTS || attr.DestQPN != from.qp.QPN() || attr.PathMTU != ib.MTU1024 || attr.MaxDestRdAtomic != 16 || to.State() != ib.QPRTS {
		t.Errorf("attributes %+v", attr)
	}
	if got := b.do("state", 0, 0, 0); got != ib.QPRTS.String() {
		t.Errorf("its process has it in %s", got)
	}
	wantError(t, to.Modify(&ib.QPAttr{MinRNRTimer: 77}, ib.QPMinRNRTimer), syscall.EINVAL, "MinRNRTimer")
	if _, err := to.PostSend(verbs.SendWR{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a send: %v", err)
	}
	again, err := here.xrcd.OpenQP(to.QPN())
	check(t, err)

	use := func(id uint64) {
		t.Helper()
		b.recv(id, 0, 64)
		here.post(id, 0, 64)
		from.sendTo(b.srq, id, 0, 50)
		from.sendTo(here.srq.Num(), id, 1, 50)
		for _, wc := range from.poll(2) {
			check(t, wc.Err())
		}
		b.want(id, ib.WCRecv, 50, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[:50]))
		if wc := here.one(); wc.WRID != id || wc.QPN != to.QPN() {
			t.Errorf("%+v here", wc)
		}
	}
	use(1)
	b.do("destroy", 0, 0, 0)
	use(2)
	check(t, again.Destroy())
	use(3)
	_, err = from.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, RemoteSRQN: b.srq, RemoteAddr: b.addr, RKey: b.rkey + 1, SGList: []ib.SGE{from.mr.SGE(0, 8)}})
	check(t, err)
	wantStatus(t, from.poll(1)[0].Status, ib.WCRemAccessErr)
	if e := nextEvent(t, here.ctx); e.Type != ib.EventQPAccessErr || e.QP != to {
		t.Errorf("event %v of %v", e.Type, e.QP)
	}
	if s := to.State(); s != ib.QPErr {
		t.Errorf("state %v", s)
	}
	check(t, to.Destroy())
	here.wantGone(to.QPN())
}

// wantGone waits until a queue pair of another process has gone: it takes note of the last Destroy
// a little later.
func (s *station) wantGone(qpn ib.QPN) {
	s.t.Helper()
	for until := time.Now().Add(10 * time.Second); ; {
		q, err := s.xrcd.OpenQP(qpn)
		if err != nil {
			wantError(s.t, err, syscall.ENOENT, "QPN")
			return
		}
		check(s.t, q.Destroy())
		if time.Now().After(until) {
			s.t.Fatal("the queue pair lives on")
		}
	}
}

// TestXRCOpenRefused: numbers of other domains, of no queue pair and of no process.
func TestXRCOpenRefused(t *testing.T) {
	f := domainFile(t)
	here := newStation(t, 64, f)
	b, stranger := startBox(t, f.Name()), startBox(t, domainFile(t).Name())
	for _, n := range map[string]ib.QPN{
		"of another domain":   stranger.target(),
		"a queue's number":    ib.QPN(b.srq) + 100,
		"0":                   0,
		"more than 24 bits":   1 << 30,
		"this process's":      newEnd(t, ib.QPTypeRC, 64).qp.QPN(),
		"one that was closed": func() ib.QPN { n := b.target(); b.do("destroy", 0, 0, 0); return n }(),
	} {
		_, err := here.xrcd.OpenQP(n)
		wantError(t, err, syscall.ENOENT, "QPN")
	}
}

// TestXRCOpenOfKilledProcess: the queue pair ends with the process that has made it.
func TestXRCOpenOfKilledProcess(t *testing.T) {
	for _, how := range []string{"killed", "close"} {
		f := domainFile(t)
		here := newStation(t, 64, f)
		b := startBox(t, f.Name())
		to, err := here.xrcd.OpenQP(b.target())
		check(t, err)
		if how == "killed" {
			b.kill()
		} else {
			b.do(how, 0, 0, 0)
		}
		if e := nextEvent(t, here.ctx); e.Type != ib.EventQPFatal || e.QP != to {
			t.Errorf("%s: event %v", how, e.Type)
		}
		if s := to.State(); s != ib.QPErr {
			t.Errorf("%s: state %v", how, s)
		}
		wantError(t, to.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr), syscall.EIO, "QP")
		check(t, to.Destroy())
	}
}

// TestXRCOpenersDie: openers that are killed, or leave, let the queue pair go.
func TestXRCOpenersDie(t *testing.T) {
	f := domainFile(t)
	here, _, to := sharedTarget(t, f, 64)
	dies, leaves := startBox(t, f.Name()), startBox(t, f.Name())
	for _, b := range []*box{dies, leaves} {
		if got := b.do("open", uint64(to.QPN()), 0, 0); got != ib.QPRTS.String() {
			t.Fatal(got)
		}
	}
	dies.kill()
	qpn := to.QPN()
	check(t, to.Destroy())
	again, err := here.xrcd.OpenQP(qpn) // one has it open
	check(t, err)
	check(t, again.Destroy())
	leaves.do("destroy", 0, 0, 0)
	here.wantGone(qpn)
}
