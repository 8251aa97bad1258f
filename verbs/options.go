// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/core"
)

// Option configures the process's devices at the first Open.
type Option func(*options)

type options = core.Options

// WithFaults injects faults into everything sent: a list such as
// "loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=1ms,seed=42". The same seed
// gives the same faults for the same traffic. Devices of iWARP over TCP, which
// repairs the rest, have corrupt, delay, jitter and cut, a share of writes that
// reset the connection.
func WithFaults(spec string) Option { return func(o *options) { o.Faults = spec } }

// WithCapture writes every packet sent and received to a pcapng file that
// Wireshark opens.
func WithCapture(path string) Option { return func(o *options) { o.CapturePath(path) } }

// WithoutLocalPath has packets between queue pairs of this host go through UDP
// sockets, as those to other hosts do. Otherwise those of connected queue pairs
// of one user's processes go through shared memory, which nobody sees but a
// program that looks at the interface. WithFaults and WithCapture imply it.
func WithoutLocalPath() Option { return func(o *options) { o.NoLocal = true } }

// WithoutSharing takes UDP port 4791 for this process alone.
func WithoutSharing() Option { return func(o *options) { o.Solo = true } }
