// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"strconv"

	"verbena/internal/device"
	"verbena/internal/tools/cli"
)

// lan is a network of one site: a datagram's delay there, one way.
const lan = "delay=50us"

// trpSend is the latency of SENDs of 2 bytes over TRP, in µs one way.
func trpSend(ctx context.Context, r *run) (float64, error) {
	on, err := r.overTRP()
	if err != nil {
		return 0, err
	}
	row, err := on.perf(ctx, nil, []string{"send", "lat"}, "-s", "2", "-n", strconv.Itoa(r.pings))
	return row.Typical, err
}

// overTRP returns the processes on the TRP device of the same interface.
func (r *run) overTRP() (*peer, error) {
	info, err := cli.FindDevice(r.device)
	if err != nil {
		return nil, err
	}
	on := *r.peer
	on.device = string(device.KindTRP) + "_" + info.NetDev
	return &on, nil
}

// trpWrite is the bandwidth of WRITEs of 64 KiB over TRP, in 10^6 bytes a second, where both sides
// inject faults.
func trpWrite(faults string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		on, err := r.overTRP()
		if err != nil {
			return 0, err
		}
		on.flags = []string{"--faults", faults}
		row, err := on.perf(ctx, nil, []string{"write", "bw"}, "-s", "65536", "-D",
			strconv.Itoa(r.seconds))
		return row.Average * mebibyte / 1e6, err
	}
}
