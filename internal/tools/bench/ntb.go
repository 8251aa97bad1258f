// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"verbena/internal/device"
)

// ntbMeasures measure an NTB link, in memory that two processes share, beside other
// programs over shared memory.
var ntbMeasures = []measure{
	{name: "NTB WRITE 1 MiB", unit: "MB/s", beside: "memcpy",
		goal: goal{bound: 0.8, atLeast: true, ratio: true}, ours: ntbBandwidth("write", 1<<20),
		raw: memcpyBandwidth(1 << 20)},
	{name: "NTB WRITE 8 B, 1 queue pair, 64 outstanding", unit: "/s",
		goal: goal{bound: 3e6, atLeast: true}, ours: ntbRate},
	ntbLatency("write", "posix", "ucp_put_lat"),
	ntbLatency("send", "posix", "tag_lat"),
	ntbLatency("send", "sysv", "tag_lat"),
	ntbLatency("send", "posix,cma", "tag_lat"),
	{name: "NTB SEND 8 B, one way, polling", unit: "µs", beside: "libfabric shm",
		goal: goal{bound: 1.5, ratio: true}, ours: ntbPing("send"),
		raw: fabricShm(8, 20000).measured},
	ntbPut("posix", 1<<20, 5000),
	ntbPut("sysv", 1<<20, 5000),
	ntbPut("posix,cma", 1<<20, 5000),
	ntbSend("posix", 64<<10, 20000),
	ntbSend("posix", 1<<20, 2000),
}

// onNTB is p on a link that both sides of a perf are told of.
func onNTB(p *peer) (on *peer, done func(), err error) {
	dir, err := os.MkdirTemp("", "verbena-bench-")
	if err != nil {
		return nil, nil, err
	}
	next := *p
	next.device = string(device.KindNTB) + "0"
	next.env = []string{device.LinksVariable + "=shm:" + filepath.Join(dir, "link")}
	return &next, func() { os.RemoveAll(dir) }, nil
}

func ntbPerf(ctx context.Context, r *run, test []string, args ...string) (perfRow, error) {
	on, done, err := onNTB(r.peer)
	if err != nil {
		return perfRow{}, err
	}
	defer done()
	return on.perf(ctx, nil, test, args...)
}

func ntbBandwidth(op string, size int) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		row, err := ntbPerf(ctx, r, []string{op, "bw"}, "-s", strconv.Itoa(size), "-D",
			strconv.Itoa(r.seconds))
		return row.Average * mebibyte / 1e6, err
	}
}

func ntbRate(ctx context.Context, r *run) (float64, error) {
	row, err := ntbPerf(ctx, r, []string{"write", "bw"}, "-s", "8", "-t", "64", "-n",
		strconv.FormatInt(r.rateOps, 10))
	return row.MsgRate * 1e6, err
}

// ntbPing is the one-way latency of 8 bytes.
func ntbPing(op string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		row, err := ntbPerf(ctx, r, []string{op, "lat"}, "-s", "8", "-n", strconv.Itoa(r.pings))
		return row.Typical, err
	}
}

// ntbLatency is a ping-pong beside UCX's over one of its transports through
// memory.
func ntbLatency(op, transport, test string) measure {
	name := map[string]string{"send": "SEND", "write": "WRITE"}[op]
	return measure{name: "NTB " + name + " 8 B, one way, polling", unit: "µs",
		beside: "UCX " + strings.Replace(transport, ",", " and ", 1),
		goal:   goal{bound: 1.5, ratio: true}, ours: ntbPing(op), raw: ucx(transport, test,
			8, 100000, ucxMedian, 1).measured}
}

// ntbPut is the bandwidth of WRITEs beside that of UCX's put.
func ntbPut(transport string, size, count int) measure {
	return measure{name: "NTB WRITE " + bytesText(size), unit: "MB/s",
		beside: "UCX " + strings.Replace(transport, ",", " and ", 1),
		ours:   ntbBandwidth("write", size), raw: ucx(transport, "ucp_put_bw", size, count,
			ucxBandwidth, mebibyte/1e6).measured}
}

// ntbSend is the bandwidth of SENDs beside that of UCX's messages.
func ntbSend(transport string, size, count int) measure {
	return measure{name: "NTB SEND " + bytesText(size), unit: "MB/s",
		beside: "UCX " + strings.Replace(transport, ",", " and ", 1),
		ours:   ntbBandwidth("send", size), raw: ucx(transport, "tag_bw", size, count, ucxBandwidth,
			mebibyte/1e6).measured}
}

// memcpyBandwidth copies from one buffer to another on one processor.
func memcpyBandwidth(size int) func(context.Context, *run) (float64, error) {
	return func(_ context.Context, r *run) (float64, error) {
		src, dst := make([]byte, size), make([]byte, size)
		for i := range src {
			src[i] = byte(i)
		}
		copy(dst, src) // its pages are there
		total, start := 0, time.Now()
		for limit := time.Duration(r.seconds) * time.Second; time.Since(start) < limit; {
			for range 16 {
				total += copy(dst, src)
			}
		}
		return float64(total) / time.Since(start).Seconds() / 1e6, nil
	}
}
