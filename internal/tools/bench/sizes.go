// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"strconv"
	"time"

	"verbena/internal/monotime"
)

// sizesTopic has WRITE and SEND by message size, beside TCP. Its rounds are short.
const sizesTopic = "By message size"

// sizes are the sizes of messages in its rows.
var sizes = []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20}

// A round of one size sends this many messages, or bytes if that is less.
const (
	sizeMessages, sizeBytes = 100000, 512 << 20
	sizePings, pingedBytes  = 5000, 64 << 20
	sizeSpan                = 150 * time.Millisecond // of the peer's stream
)

// sizeGroups has the ways of a size beside one TCP connection.
func sizeGroups() (all []group) {
	for _, size := range sizes {
		count := strconv.Itoa(min(sizeMessages, sizeBytes/size))
		all = append(all, sized("WRITE "+bytesText(size), "MB/s",
			func(ctx context.Context, r *run, flags ...string) (float64, error) {
				row, err := r.perf(ctx, nil, []string{"write", "bw"},
					append(flags, "-s", strconv.Itoa(size), "-n", count)...)
				return row.Average * mebibyte / 1e6, err
			},
			func(ctx context.Context, r *run) (float64, error) {
				return r.tcpStream(ctx, size, monotime.Duration(sizeSpan))
			}))
	}
	for _, size := range sizes {
		count := min(sizePings, pingedBytes/size)
		all = append(all, sized("SEND "+bytesText(size)+", one way", "µs",
			func(ctx context.Context, r *run, flags ...string) (float64, error) {
				row, err := r.perf(ctx, nil, []string{"send", "lat"},
					append(flags, "-s", strconv.Itoa(size), "-n", strconv.Itoa(count))...)
				return row.Typical, err
			},
			func(ctx context.Context, r *run) (float64, error) {
				return r.tcpPing(ctx, size, count)
			}))
	}
	return all
}

// sized is one size over the ways of RoCEv2.
func sized(name, unit string, ours func(context.Context, *run, ...string) (float64, error),
	tcp func(context.Context, *run) (float64, error)) group {
	return group{
		rows: []row{{name + ", same host", unit, "TCP", goal{}},
			{name + ", UDP", unit, "TCP", goal{}}},
		ours: func(ctx context.Context, r *run) ([]float64, error) {
			local, err := ours(ctx, r)
			if err != nil {
				return nil, err
			}
			udp, err := ours(ctx, r, overUDP)
			return []float64{local, udp}, err
		},
		peer: func(ctx context.Context, r *run) ([]float64, error) {
			v, err := tcp(ctx, r)
			return []float64{v, v}, err
		},
	}
}
