// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/core"
)

// TestQueryPortAsksNoQueuePair: a program with thousands of queue pairs asks for the port before it
// makes each. The counters of violations must not be summed over all queue pairs for that.
func TestQueryPortAsksNoQueuePair(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	connect(t, a, b, ib.MTU1024)
	qp := (*core.QP)(a.qp)
	check(t, qp.BeginSend()) // locks the queue pair
	defer qp.SubmitSends()
	done := make(chan error, 1)
	go func() {
		_, err := a.ctx.QueryPort(1)
		done <- err
	}()
	select {
	case err := <-done:
		check(t, err)
	case <-time.After(10 * time.Second):
		t.Error("QueryPort waits for a queue pair")
	}
}
