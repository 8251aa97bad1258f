// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/internal/testkit/replay"
	"verbena/internal/wire/roce"
	"verbena/verbs"
)

// TestRNRTimerOfRunningQP changes min_rnr_timer of a queue pair in RTS: its next RNR NAK has the
// new code.
func TestRNRTimerOfRunningQP(t *testing.T) {
	const before, after = 1, 20
	file := filepath.Join(t.TempDir(), "rnr.pcapng")
	c, err := verbs.Open(loopback.Device(t), verbs.WithCapture(file))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	a, b := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	connect(t, a, b, ib.MTU1024, func(attr *ib.QPAttr) { attr.MinRNRTimer, attr.RNRRetry = before, 0 })

	wantError(t, b.qp.Modify(&ib.QPAttr{MinRNRTimer: 32}, ib.QPMinRNRTimer), syscall.EINVAL, "MinRNRTimer")
	if got, _ := b.qp.Query(); got.MinRNRTimer != before {
		t.Errorf("after a refused change: %d", got.MinRNRTimer)
	}
	check(t, b.qp.Modify(&ib.QPAttr{MinRNRTimer: after}, ib.QPMinRNRTimer))
	if got, _ := b.qp.Query(); got.MinRNRTimer != after || got.State != ib.QPRTS {
		t.Errorf("%d in %v", got.MinRNRTimer, got.State)
	}
	// No receive, and no second try: the one RNR NAK ends the queue pair.
	wantStatus(t, a.post(verbs.SendWR{ID: 1, Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}}).Status, ib.WCRNRRetryExcErr)
	check(t, verbs.FlushCapture())

	all, err := replay.Load(file)
	check(t, err)
	naks := 0
	for _, c := range all {
		for _, p := range c.Packets {
			if p.Info.HasAETH && p.AETH.Syndrome.Kind() == roce.KindRNRNAK {
				naks++
				if got := p.AETH.Syndrome.Value(); got != after {
					t.Errorf("an RNR NAK with the code %d, want %d", got, after)
				}
			}
		}
	}
	if naks == 0 {
		t.Error("no RNR NAK")
	}
	u := newEnd(t, ib.QPTypeUC, 64)
	toInit(t, u)
	wantError(t, u.qp.Modify(&ib.QPAttr{MinRNRTimer: 3}, ib.QPMinRNRTimer), syscall.EINVAL, "mask")
}
