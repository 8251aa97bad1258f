// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"hash/crc32"
	"runtime"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
)

// TestXRCOtherProcessStopped: a requester on the host waits for a process that is stopped when the
// first message for it comes. No time-out takes place.
func TestXRCOtherProcessStopped(t *testing.T) {
	f := domainFile(t)
	here, from, to := sharedTarget(t, f, 4096)
	b := startBox(t, f.Name())
	b.recv(1, 0, 64)
	b.recv(2, 0, 64)
	from.sendTo(b.srq, 1, 0, 64)
	from.one()
	b.want(1, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[:64]))
	check(t, from.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	check(t, to.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	connectXRC(t, from, here.ctx, to, func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = 8, 1 }) // 1 ms
	check(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { b.cmd.Process.Signal(syscall.SIGCONT) }) // it ends with its input
	from.sendTo(b.srq, 2, 1, 64)
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); runtime.Gosched() {
		var none [1]ib.WC
		if n, err := from.cq.Poll(none[:]); n != 0 || err != nil {
			t.Fatalf("%v, %v while the process is stopped", none[0].Status, err)
		}
	}
	check(t, b.cmd.Process.Signal(syscall.SIGCONT))
	from.one()
	b.want(2, ib.WCRecv, 64, to.QPN(), 0, crc32.ChecksumIEEE(from.buf[1:65]))
}
