// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"sync"

	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/shmring"
)

// MaxAhead bounds the bursts that a Reader knows of before they come: those of a turn.
const MaxAhead = 16

// In is the receive side of a ring.
type In struct {
	// immutable after Rings.add
	rings  *Rings
	slot   int         // of the process that writes
	in     *shmring.In // nil within this process
	shown  bool        // on the board
	reader Reader

	rxMu sync.Mutex // held while reading; taken with TryLock except by TakeAll and Stop

	// guarded by rxMu
	rx          *shmring.Consumer // also the background goroutine's, which closes it
	msg         shmring.Message   // the reader's argument: a local variable would be allocated
	mayDelayAck bool
	ahead       [MaxAhead][]byte
	closed      bool
}

var _ engine.Ring = (*In)(nil)

// TryPoll implements engine.Input.
func (r *In) TryPoll(mayDelayAck bool) int {
	if !r.rxMu.TryLock() {
		return engine.Busy
	}
	n := 0
	if !r.closed {
		r.mayDelayAck = mayDelayAck
		n = r.read()
	}
	r.rxMu.Unlock()
	return n
}

// read handles waiting entries. The caller holds rxMu.
func (r *In) read() (n int) {
	m := &r.msg
	var now monotime.Time
	if n := r.rx.Ahead(r.ahead[:]); n > 1 {
		r.reader.Ahead(r.ahead[:n])
	}
	for packets := 0; packets < policy.RingTurn; packets++ {
		ok, err := r.rx.Next(m)
		if err != nil {
			r.corrupt()
		}
		if !ok {
			break
		}
		if n == 0 {
			now = monotime.Now()
		}
		n++
		if !m.Question {
			r.reader.Burst(now, m, r.mayDelayAck)
			packets += (len(m.Data) - 1) / m.Segment
		}
		r.rx.Advance()
	}
	if n > 0 {
		r.reader.EndTurn(now, r.mayDelayAck)
	}
	if r.rx.Asked() {
		r.answer()
	}
	return n
}

// corrupt ends a ring that holds something no sender of ours writes.
func (r *In) corrupt() {
	r.rings.Count.Corrupt.Add(1)
	r.closed = true
	if r.in != nil {
		r.in.HangUp() // the background goroutine does the rest
	}
}

// answer confirms to the writer, which has asked, that everything it has written was handled.
// Delayed acknowledgements are sent first. While something waits for another thread, for another
// process or for room, the next look answers. The caller holds rxMu.
func (r *In) answer() {
	r.rings.eng.Settle()
	waits := r.rings.config.Unanswered
	if r.rings.waking.Load() == 0 && !r.rings.backFull(r.slot) &&
		(waits == nil || !waits(r.slot)) {
		r.rx.Answer()
	}
}

// TakeAll implements engine.Ring: it handles everything that a process, which may have ended since,
// has written so far. A ring does not hold more entries than this reads.
func (r *In) TakeAll() {
	r.rxMu.Lock()
	defer r.rxMu.Unlock()
	r.mayDelayAck = false
	for i := 0; !r.closed && i < shmring.MaxEntries; i++ {
		if r.read() == 0 {
			break
		}
	}
}

// Frames implements engine.Ring.
func (r *In) Frames() bool { return false }

// Shown implements engine.Ring.
func (r *In) Shown() bool { return r.shown }

// Arm implements engine.Ring.
func (r *In) Arm() (quiet bool) { return r.rx.Arm() }

// Disarm implements engine.Ring. An armed ring costs the peer one wake-up.
func (r *In) Disarm() {}

// Waiting implements engine.Ring.
func (r *In) Waiting() bool { return r.rx.Waiting() }

// Idle implements engine.Ring.
func (r *In) Idle() bool { return !r.rx.Waiting() && !r.rx.Asked() }

// Stop implements engine.Input.
func (r *In) Stop() {
	r.rxMu.Lock()
	r.closed = true
	r.rings.board.Hide(r.rx)
	r.rxMu.Unlock()
	if r.in != nil {
		r.rings.listener.Forget(r.in)
		r.in.Close()
	}
}
