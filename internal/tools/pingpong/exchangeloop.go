// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"context"
	"fmt"
	"os"
	"time"

	"verbena/ib"
	"verbena/internal/tools/cli"
)

const (
	// pollsPerCheck is the number of empty polls between two checks of the clock and the context.
	pollsPerCheck = 1 << 12

	// silenceLimit bounds the time for which unreliable services wait for a message before they
	// report it lost; RC finds out by itself.
	silenceLimit = 5 * time.Second

	// linger is the time for which a side with --faults stays to repeat an acknowledgement that was
	// lost: several time-outs of the peer.
	linger = 500 * time.Millisecond
)

// run is the state of the exchange.
type run struct {
	e        *endpoint
	pending  []int // per queue pair: recvID and sendID bits it waits for
	posted   int   // receives
	sent     int
	received int
	wc       []ib.WC
	progress *cli.Progress
	lastSeen time.Time
}

// exchange sends the first messages if client, then answers each message with
// one, until the number of exchanges asked for is sent and received. It
// returns how long that took.
func exchange(ctx context.Context, e *endpoint, client bool,
	progress *cli.Progress) (time.Duration, error) {
	r := &run{e: e, pending: make([]int, len(e.qps)), posted: e.o.rxDepth, wc: make([]ib.WC, 16),
		progress: progress}
	start := time.Now()
	r.lastSeen = start
	for i := range r.pending {
		r.pending[i] = recvID
		if !client {
			continue
		}
		if err := e.postSend(i); err != nil {
			return 0, err
		}
		r.pending[i] |= sendID
	}
	for !r.done() {
		if e.channel != nil {
			if err := r.sleep(ctx); err != nil {
				return 0, err
			}
		}
		if err := r.drain(ctx); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	progress.Done()
	if e.o.dev.Faults != "" {
		stay(ctx)
	}
	return took, nil
}

func (r *run) done() bool { return r.sent >= r.e.o.iters && r.received >= r.e.o.iters }

// sleep waits for a completion event and asks for the next.
func (r *run) sleep(ctx context.Context) error {
	if !r.e.o.kind.reliable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, silenceLimit, errSilence)
		defer cancel()
	}
	if _, err := r.e.channel.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return r.e.cq.RequestNotify(false)
}

var errSilence = fmt.Errorf("nothing from the peer for %v: a message was lost, and this service "+
	"does not repeat it", silenceLimit)

// drain handles the completions there are; when polling it waits for some.
func (r *run) drain(ctx context.Context) error {
	for polls := 1; ; polls++ {
		n, err := r.e.cq.Poll(r.wc)
		if err != nil {
			return err
		}
		for i := range n {
			if r.done() { // the rest is flushed: iWARP's peer may have disconnected
				return nil
			}
			if err := r.handle(&r.wc[i]); err != nil {
				return err
			}
		}
		switch {
		case n > 0 && r.e.channel != nil:
			continue // the event may stand for more than one batch
		case n > 0 || r.e.channel != nil:
			return nil
		case polls%pollsPerCheck == 0:
			if err := r.check(ctx); err != nil {
				return err
			}
		}
	}
}

// check is called now and then by a loop that polls in vain.
func (r *run) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !r.e.o.kind.reliable && time.Since(r.lastSeen) > silenceLimit {
		return errSilence
	}
	return nil
}

func (r *run) handle(wc *ib.WC) error {
	if wc.Status != ib.WCSuccess {
		return failed(wc)
	}
	i, ok := r.e.qpIndex(wc.QPN)
	if !ok {
		return fmt.Errorf("completion for QPN %v, which is not ours", wc.QPN)
	}
	switch wc.WRID {
	case sendID:
		r.sent++
	case recvID:
		r.received++
		r.posted--
		if r.posted <= len(r.e.qps) {
			if err := r.e.postReceives(r.e.o.rxDepth - r.posted); err != nil {
				return err
			}
			r.posted = r.e.o.rxDepth
		}
		if r.received%256 == 0 {
			r.lastSeen = time.Now()
			r.progress.Set(int64(r.received))
		}
	}
	r.pending[i] &^= int(wc.WRID)
	if r.pending[i] != 0 || r.sent >= r.e.o.iters {
		return nil
	}
	r.pending[i] = recvID | sendID
	return r.e.postSend(i)
}

// failed describes a completion as the original programs do, and adds its meaning.
func failed(wc *ib.WC) error {
	//lint:ignore ST1005 the words are the original programs'
	err := fmt.Errorf("Failed status %v (%d) for wr_id %d: %v", wc.Status, uint8(wc.Status),
		wc.WRID, wc.VendorErr)
	if wc.Status == ib.WCRetryExcErr {
		return fmt.Errorf("%w; %s", err, cli.NoAnswer(wc.VendorErr))
	}
	return err
}

// stay lets the device work for a while.
func stay(ctx context.Context) {
	t := time.NewTimer(linger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// markPages writes the marks that the receiver of --chk looks for: a zero at the start of each
// page.
func markPages(message []byte) {
	for i := 0; i < len(message); i += os.Getpagesize() {
		message[i] = 0
	}
}

// invalidPages returns the pages that lack it.
func invalidPages(message []byte) []int {
	var bad []int
	for i := 0; i < len(message); i += os.Getpagesize() {
		if message[i] != 0 {
			bad = append(bad, i/os.Getpagesize())
		}
	}
	return bad
}
