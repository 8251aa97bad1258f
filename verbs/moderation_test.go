// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// longest is the longest period that a device has.
const longest = 65535 * time.Microsecond

// TestModeration: an event of a queue comes with the completion that completes its count, or after
// the period.
func TestModeration(t *testing.T) { onBothPaths(t, moderation) }

func moderation(t *testing.T) {
	a := newEnd(t, ib.QPTypeRC, 64)
	b, ch := newEnd(t, ib.QPTypeRC, 4096).withChannel()
	connect(t, a, b, ib.MTU1024)
	if caps := b.ctx.Query().CQModeration; caps != (ib.CQModerationCaps{MaxCount: 65535, MaxPeriod: 65535}) {
		t.Errorf("capabilities %+v", caps)
	}
	send := func(n int, flags ib.SendFlags) {
		for range n {
			b.recv(1, 64)
			wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, Flags: flags}).Status, ib.WCSuccess)
		}
	}

	check(t, b.cq.Moderate(4, longest))
	check(t, b.cq.RequestNotify(false))
	begin := time.Now()
	send(3, 0)
	early := hasEvent(ch)
	if early && time.Since(begin) < longest {
		t.Error("three completions made an event")
	}
	send(1, 0)
	if !early { // else the period has passed
		wait(t, ch)
	}
	b.poll(4)

	check(t, b.cq.Moderate(9, 5*time.Millisecond))
	check(t, b.cq.RequestNotify(true))
	send(1, 0) // does not count
	begin = time.Now()
	send(2, ib.SendSolicited)
	wait(t, ch)
	if d := time.Since(begin); d < 5*time.Millisecond {
		t.Errorf("the event of two completions came after %v", d)
	}
	quiet(t, ch)
	b.poll(3)

	check(t, b.cq.Moderate(1, longest)) // of each completion
	check(t, b.cq.RequestNotify(false))
	send(1, 0)
	wait(t, ch)
	b.poll(1)
}

// hasEvent takes an event from a channel, if there is one.
func hasEvent(ch *verbs.CompChannel) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ch.Wait(ctx)
	return err == nil
}

// TestModeratedWait: goroutines that wait without a channel get the event too, and a queue may be
// destroyed while an event is kept back.
func TestModeratedWait(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 4096)
	connect(t, a, b, ib.MTU1024)
	check(t, b.cq.Moderate(100, time.Millisecond))
	b.recv(1, 64)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.cq.Wait(ctx, make([]ib.WC, 1))
		done <- err
	}()
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend}).Status, ib.WCSuccess)
	check(t, <-done)

	for range 100 {
		ch, err := b.ctx.CreateCompChannel()
		check(t, err)
		cq, err := b.ctx.CreateCQ(4, ch)
		check(t, err)
		check(t, cq.Moderate(4, 20*time.Microsecond))
		check(t, cq.RequestNotify(false))
		s := b.sibling(func(a *verbs.QPInitAttr) { a.SendCQ, a.RecvCQ = cq, cq })
		check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPKeyIndex|ib.QPPort|ib.QPAccessFlags))
		s.recv(1, 64)
		check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)) // the receive is flushed
		check(t, s.qp.Destroy())
		check(t, cq.Destroy())
		check(t, ch.Close())
	}
}

func TestModerationRefusals(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	wantError(t, e.cq.Moderate(-1, 0), syscall.EINVAL, "count")
	wantError(t, e.cq.Moderate(65536, 0), syscall.EINVAL, "count")
	wantError(t, e.cq.Moderate(4, -1), syscall.EINVAL, "period")
	wantError(t, e.cq.Moderate(4, longest+1), syscall.EINVAL, "period")
	cq, err := e.ctx.CreateCQ(4, nil)
	check(t, err)
	check(t, cq.Moderate(65535, longest))
	check(t, cq.Destroy())
	wantError(t, cq.Moderate(4, longest), syscall.EINVAL, "CQ")
}
