package perf

import (
	"time"

	"verbena/ib"
	"verbena/internal/tools/cli"
)

// warmUp is how many round trips go before those that count, but no more than
// those.
const warmUp = 100

// pinger is one size of a latency test on one side.
type pinger struct {
	e         *endpoint
	w         *watch
	size      int
	iters     int64     // 0 is by deadline
	deadline  time.Time // zero is by iterations
	times     *latencies
	wc        [latencyDepth]ib.WC
	wait      waiter
	unread    int // sends whose completion was not polled yet
	arrived   int // receives polled and not yet consumed
	sequence  byte
	roundTrip time.Duration // divisor of a round trip: 2 for ping-pong
	progress  func(int64)
}

func newPinger(e *endpoint, w *watch, size int, iters int64) *pinger {
	p := &pinger{e: e, w: w, size: size, iters: iters, times: newLatencies(), wait: e.waiter(), roundTrip: 1}
	if e.o.test == writeLatency || e.o.test == sendLatency {
		p.roundTrip = 2
	}
	return p
}

// ping is the client's side: it measures.
func (p *pinger) ping() (LatResult, error) {
	var start, t0 time.Time
	first := int64(-warmUp)
	if p.iters > 0 {
		first = max(first, -p.iters)
	}
	for i := first; p.iters == 0 || i < p.iters; i++ {
		if i == 0 {
			start = time.Now()
			t0 = start
			p.deadline = start.Add(p.e.o.duration)
		}
		if err := p.send(); err != nil {
			return LatResult{}, err
		}
		if err := p.awaitAnswer(); err != nil {
			return LatResult{}, err
		}
		if i < 0 {
			continue
		}
		t1 := time.Now() // ends this round trip and begins the next
		p.times.add(t1.Sub(t0) / p.roundTrip)
		t0 = t1
		if p.iters == 0 && t1.After(p.deadline) {
			break
		}
		if p.progress != nil && i%256 == 0 {
			p.progress(i)
		}
	}
	return p.times.result(p.size, time.Since(start)), nil
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
	if p.e.o.test.op == "write" {
		p.sequence++
		p.e.mr.Bytes()[p.e.sendHalf(0)+p.size-1] = p.sequence
	}
	p.unread++
	if err := f.post(0, 1); err != nil {
		return err
	}
	return f.restore(0, 1) // only now: the answer goes first
}

// awaitAnswer waits for what ends a round trip.
func (p *pinger) awaitAnswer() error {
	if p.roundTrip == 2 {
		return p.awaitMessage()
	}
	for p.unread > 0 {
		before := p.unread
		if err := p.reap(); err != nil {
			return err
		}
		if p.unread == before {
			if err := p.wait.idle(p.w.ctx); err != nil {
				return p.lost(err)
			}
		}
	}
	return nil
}

// awaitMessage waits for the peer's next message: of a SEND the completion, of
// a WRITE the last byte in memory, as perftest does.
func (p *pinger) awaitMessage() error {
	if p.e.o.test.op == "send" {
		return p.awaitReceive()
	}
	want := p.sequence
	if p.e.o.host == "" {
		want++ // the server answers with the number it got
	}
	last := &p.e.mr.Bytes()[p.e.receiveHalf(0)+p.size-1]
	for cli.LoadByte(last) != want {
		if err := p.reap(); err != nil {
			return err
		}
		if err := p.wait.idle(p.w.ctx); err != nil {
			return p.lost(err)
		}
	}
	return nil
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
			return p.lost(err)
		}
	}
	p.arrived--
	return nil
}

// lost is the error of a wait that the context ended.
func (p *pinger) lost(err error) error {
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
