// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"errors"
	"fmt"
	"time"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/tools/cli"
)

// warmUp is the number of round trips before those that count, but never more than those.
const warmUp = 100

// pinger is one size of a latency test on one side.
type pinger struct {
	e         *endpoint
	w         *watch
	size      int
	iters     int64 // 0 is by deadline
	times     *latencies
	wc        [latencyDepth]ib.WC
	wait      waiter
	unread    int // sends whose completion was not polled yet
	arrived   int // receives polled and not yet consumed
	sequence  byte
	number    *byte         // of the next message, where messages are numbered; else nil
	roundTrip time.Duration // divisor of a round trip: 2 for ping-pong
	looks     int           // at memory, for one at the queue
	progress  func(int64)
	showAt    time.Duration // since the first that counts: when to call progress again

	// A service that loses messages: how long to wait for an answer, 0 is for
	// ever, and how many did not come.
	patience time.Duration
	lost     int64
}

// memoryLooks is the number of reads of memory that replace one poll, where a WRITE arrives without
// a poll. perftest polls only for its own completions.
const memoryLooks = 512

// showEvery is the interval at which a test shows its progress.
const showEvery = 100 * time.Millisecond

// An answer that takes longer is lost, and so is a peer that leaves as many in a
// row unanswered.
const (
	answerTime = 50 * time.Millisecond
	maxSilence = 50
)

func newPinger(e *endpoint, w *watch, size int, iters int64) *pinger {
	p := &pinger{e: e, w: w, size: size, iters: iters, times: newLatencies(), wait: e.waiter(),
		roundTrip: 1, looks: 1}
	if e.dev.Info().Kind == device.KindNTB && e.channel == nil {
		p.looks = memoryLooks
	}
	if e.o.test == writeLatency || e.o.test == sendLatency {
		p.roundTrip = 2
	}
	if !e.o.service.reliable() {
		p.patience = answerTime
	}
	// A WRITE is seen by its last byte, and where messages are lost that tells which one is
	// answered.
	if e.o.test.op == "write" || p.patience > 0 {
		p.number = &e.mr.Bytes()[e.sendHalf(0)+size-1]
	}
	return p
}

// ping is the client's side: it measures. A round trip is from one post to the next, so
// that the clock is read while a message is on its way.
func (p *pinger) ping() (LatResult, error) {
	var start time.Time
	var t0 time.Duration // since start
	silence := 0
	late := false // the last message had no answer
	first := int64(-warmUp)
	if p.iters > 0 {
		first = max(first, -p.iters)
	}
	for i, over := first, false; !over; i++ {
		if err := p.send(); err != nil {
			return LatResult{}, err
		}
		switch {
		case i == -1:
			start = time.Now()
		case i >= 0:
			t1 := time.Since(start)
			if late {
				p.lost++
			} else {
				p.times.add((t1 - t0) / p.roundTrip)
			}
			t0 = t1
			over = i+1 == p.iters || p.iters == 0 && t1 > p.e.o.duration
			if p.progress != nil && t1 > p.showAt {
				p.showAt = t1 + showEvery
				p.progress(i)
			}
		}
		err := p.awaitAnswer()
		if late = errors.Is(err, errLate); !late {
			silence = 0
			if err != nil {
				return LatResult{}, err
			}
		} else if silence++; silence == maxSilence {
			return LatResult{}, fmt.Errorf("%d messages in a row had no answer; is UDP port 4791 "+
				"open there?", maxSilence)
		}
	}
	if p.times.h.TotalCount() == 0 {
		return LatResult{}, fmt.Errorf("none of %d messages had an answer", p.lost)
	}
	result := p.times.result(p.size, time.Since(start))
	result.Lost = p.lost
	return result, nil
}

// pong is the server's side: it answers until the client is done.
func (p *pinger) pong() error {
	if p.roundTrip == 1 {
		return p.serve()
	}
	for {
		err := p.awaitMessage()
		if err == nil {
			err = p.send()
		}
		if err != nil {
			return p.done(err)
		}
	}
}

// serve lets the device answer READs and atomics with this thread's help.
func (p *pinger) serve() error {
	if p.e.channel != nil {
		<-p.w.ctx.Done()
		return p.done(p.w.ctx.Err())
	}
	for {
		if err := p.reap(); err != nil {
			return err
		}
		if err := p.wait.idle(p.w.ctx); err != nil {
			return p.done(err)
		}
	}
}

// done turns the end of the context into success if the peer said so.
func (p *pinger) done(err error) error {
	if p.w.ctx.Err() == nil {
		return err
	}
	select {
	case <-p.w.done:
		return p.w.err
	default:
		return err // interrupted
	}
}

// send posts the next message.
func (p *pinger) send() error {
	for p.unread == latencyDepth {
		if err := p.reap(); err != nil {
			return err
		}
	}
	f := &p.e.flows[0]
	if p.number != nil {
		p.sequence++
		*p.number = p.sequence
	}
	p.unread++
	if err := f.post(0, 1); err != nil {
		return err
	}
	if err := f.restore(0, 1); err != nil { // only now: the answer goes first
		return err
	}
	if p.unread > latencyDepth/2 {
		if err := p.reap(); err != nil {
			return err
		}
	}
	if n := p.e.o.cqMod; n > 0 && p.unread >= n {
		return p.awaitSends()
	}
	return nil
}

// awaitAnswer waits for the end of a round trip. For a service that loses messages it returns
// errLate when no answer came.
func (p *pinger) awaitAnswer() error {
	if p.patience > 0 {
		p.wait.until = time.Now().Add(p.patience)
	}
	if p.roundTrip == 2 {
		return p.awaitMessage()
	}
	return p.awaitSends()
}

// awaitSends waits for the completions of all that was posted.
func (p *pinger) awaitSends() error {
	for p.unread > 0 {
		before := p.unread
		if err := p.reap(); err != nil {
			return err
		}
		if p.unread == before {
			if err := p.wait.idle(p.w.ctx); err != nil {
				return p.ended(err)
			}
		}
	}
	return nil
}

// awaitMessage waits for the peer's next message: of a SEND the completion, of
// a WRITE the last byte in memory, as perftest does.
func (p *pinger) awaitMessage() error {
	last := p.e.lastByte(p.size)
	if p.e.o.test.op == "send" {
		for {
			if err := p.awaitReceive(); err != nil || p.number == nil || p.take(*last) {
				return err
			}
		}
	}
	for !p.seen(last) {
		if err := p.reap(); err != nil {
			return err
		}
		if err := p.wait.idle(p.w.ctx); err != nil {
			return p.ended(err)
		}
	}
	return nil
}

// seen looks whether a WRITE that was waited for is there.
func (p *pinger) seen(last *byte) bool {
	for range p.looks {
		if p.take(cli.LoadByte(last)) {
			return true
		}
	}
	return false
}

// take looks at the number of a message that arrived and reports whether it was
// waited for. The client waits for its own. The server answers with the number
// that it got, which is the next one, or, where messages are lost, another than
// the last; of SENDs it answers each, as there a number is not seen twice.
func (p *pinger) take(number byte) bool {
	client := p.e.o.host != ""
	switch {
	case client:
		return number == p.sequence
	case p.patience == 0:
		return number == p.sequence+1
	case p.e.o.test.op == "write" && number == p.sequence:
		return false
	}
	p.sequence = number - 1 // send adds one
	return true
}

func (p *pinger) awaitReceive() error {
	for p.arrived == 0 {
		if err := p.reap(); err != nil {
			return err
		}
		if p.arrived > 0 {
			break
		}
		if err := p.wait.idle(p.w.ctx); err != nil {
			return p.ended(err)
		}
	}
	p.arrived--
	return nil
}

// ended is the error of a wait that the context ended.
func (p *pinger) ended(err error) error {
	if failed := p.w.failed(); failed != nil {
		return failed
	}
	return err
}

// reap polls completions, of sends and receives: a latency test has one queue
// for both, so that one poll looks at the wire once.
func (p *pinger) reap() error {
	n, err := p.e.scq.Poll(p.wc[:])
	if err != nil {
		return err
	}
	for i := range n {
		wc := &p.wc[i]
		if wc.Opcode == ib.WCRecv && wc.Status == ib.WCSuccess {
			p.arrived++
			p.e.flows[0].used++
			continue
		}
		if _, err := p.e.complete(wc); err != nil {
			return err
		}
		p.unread--
	}
	return nil
}
