// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

// Queue sizes of the idle queue pairs that are counted: small, as of a server
// with many clients.
const (
	idleSendDepth = 16
	idleRecvDepth = 16
)

const (
	sampleInterval = 100 * time.Millisecond
	// A process keeps its first statistics after a second. That makes encoders, and
	// the first garbage collection comes with it: 1 to 2 MiB, once.
	startSamples = int(2 * time.Second / sampleInterval)
)

// residentBytes returns a process's resident memory, as the kernel counts it.
func residentBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, b)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// idleCommand creates queue pairs, connected and idle, and prints the bytes
// that each took.
func idleCommand() *cobra.Command {
	var dev cli.Device
	var count int
	cmd := &cobra.Command{
		Use:    "idle",
		Short:  "Count the memory of idle queue pairs",
		Hidden: true,
		Args:   cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := bytesPerIdleQP(&dev, count)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), n)
			return nil
		},
	}
	dev.NameFlag(cmd.Flags(), "d")
	cmd.Flags().IntVarP(&count, "qp", "q", 10000, "create `N` queue pairs")
	return cmd
}

// bytesPerIdleQP is measured in a process of its own, whose heap nothing else
// disturbs.
func bytesPerIdleQP(dev *cli.Device, count int) (float64, error) {
	c, err := dev.Open()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	sgid, err := cli.LocalGID(c, 1, cli.AnyGID)
	if err != nil {
		return 0, err
	}
	pd, err := c.AllocPD()
	if err != nil {
		return 0, err
	}
	cq, err := c.CreateCQ(idleSendDepth+idleRecvDepth, nil)
	if err != nil {
		return 0, err
	}
	qps := make([]*verbs.QP, 0, count)
	before := settled()
	for range count {
		qp, err := idleQP(pd, cq, sgid)
		if err != nil {
			return 0, fmt.Errorf("queue pair %d: %w", len(qps), err)
		}
		qps = append(qps, qp)
	}
	after := settled()
	for _, qp := range qps {
		if err := qp.Destroy(); err != nil {
			return 0, err
		}
	}
	return float64(after-before) / float64(count), nil
}

// settled returns the process's memory after garbage collection.
func settled() int64 {
	debug.FreeOSMemory()
	if n, err := residentBytes(os.Getpid()); err == nil {
		return n
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func idleQP(pd *verbs.PD, cq *verbs.CQ, sgid ib.GIDEntry) (*verbs.QP, error) {
	qp, err := pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq,
		Cap: ib.QPCap{MaxSendWR: idleSendDepth, MaxRecvWR: idleRecvDepth, MaxSendSGE: 1,
			MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	if err := qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1},
		ib.QPStateAttr|ib.QPPKeyIndex|ib.QPPort|ib.QPAccessFlags); err != nil {
		return nil, err
	}
	rtr := ib.QPAttr{
		State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: qp.QPN(), MaxDestRdAtomic: 1,
		MinRNRTimer: 12, AH: ib.AHAttr{IsGlobal: true, PortNum: 1,
			GRH: ib.GRH{DGID: sgid.GID, SGIDIndex: uint8(sgid.Index)}},
	}
	if err := qp.Modify(&rtr,
		ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|
			ib.QPMinRNRTimer); err != nil {
		return nil, err
	}
	rts := ib.QPAttr{State: ib.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
	return qp, qp.Modify(&rts,
		ib.QPStateAttr|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPSQPSN|ib.QPMaxQPRdAtomic)
}

// growth watches two processes and says by how much they grew.
type growth struct {
	samples [2][]int64 // resident bytes of each
}

// watch samples until ctx ends.
func (g *growth) watch(ctx context.Context, pids [2]int) {
	t := time.NewTicker(sampleInterval)
	defer t.Stop()
	for {
		for i, pid := range pids {
			if n, err := residentBytes(pid); err == nil && n > 0 {
				g.samples[i] = append(g.samples[i], n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// bytes returns how much more the process that grew more held in the last
// quarter of the run than in the second. The first is left out, as pools fill, and
// before it the start of the process.
func (g *growth) bytes() (float64, bool) {
	worst, ok := 0.0, false
	for _, s := range g.samples {
		s = s[min(startSamples, len(s)):]
		q := len(s) / 4
		if q == 0 {
			continue
		}
		d := average(s[3*q:]) - average(s[q:2*q])
		if !ok || d > worst {
			worst, ok = d, true
		}
	}
	return worst, ok
}

func average(v []int64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x)
	}
	return sum / float64(len(v))
}
