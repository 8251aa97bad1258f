// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"context"
	"errors"
	"time"

	"verbena/verbs"
)

// pollsPerCheck is the number of empty polls between two checks of the context.
const pollsPerCheck = 256

// waiter decides the next step of a loop after an empty poll: poll again, or sleep until a
// completion event.
type waiter struct {
	channel *verbs.CompChannel // nil when polling
	cqs     [2]*verbs.CQ
	armed   bool
	empty   int
	until   time.Time // if not zero: how long to wait
}

// errLate is the end of a wait that has a limit.
var errLate = errors.New("nothing came in time")

func (e *endpoint) waiter() waiter {
	return waiter{channel: e.channel, cqs: [2]*verbs.CQ{e.scq, e.rcq}}
}

// idle returns when it is worth to poll again. It returns the error of ctx
// when that ended, and errLate when the limit has passed.
func (w *waiter) idle(ctx context.Context) error {
	if w.channel == nil {
		if w.empty++; w.empty%pollsPerCheck == 0 {
			if !w.until.IsZero() && time.Now().After(w.until) {
				return errLate
			}
			return ctx.Err()
		}
		return nil
	}
	if !w.armed {
		// Poll once more before sleeping: a completion before the arming makes no event.
		w.armed = true
		for _, cq := range w.cqs {
			if err := cq.RequestNotify(false); err != nil {
				return err
			}
		}
		return nil
	}
	w.armed = false
	limited := ctx
	if !w.until.IsZero() {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, w.until)
		defer cancel()
	}
	_, err := w.channel.Wait(limited)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return errLate
	}
	return err
}
