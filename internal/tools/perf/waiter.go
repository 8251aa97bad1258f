package perf

import (
	"context"

	"verbena/verbs"
)

// pollsPerCheck is how many empty polls go by between looks at the context.
const pollsPerCheck = 256

// waiter is what a loop does when it found nothing: poll again, or sleep until
// a completion event.
type waiter struct {
	channel *verbs.CompChannel // nil when polling
	cqs     [2]*verbs.CQ
	armed   bool
	empty   int
}

func (e *endpoint) waiter() waiter {
	return waiter{channel: e.channel, cqs: [2]*verbs.CQ{e.scq, e.rcq}}
}

// idle returns when it is worth to poll again. It returns the error of ctx
// when that ended.
func (w *waiter) idle(ctx context.Context) error {
	if w.channel == nil {
		if w.empty++; w.empty%pollsPerCheck == 0 {
			return ctx.Err()
		}
		return nil
	}
	if !w.armed {
		// Poll once more before sleeping: what came before arming makes no
		// event.
		w.armed = true
		for _, cq := range w.cqs {
			if err := cq.RequestNotify(false); err != nil {
				return err
			}
		}
		return nil
	}
	w.armed = false
	if _, err := w.channel.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}
