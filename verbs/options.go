// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"fmt"
	"log/slog"
	"os"

	"verbena/internal/core"
	"verbena/internal/sys/recorder"
)

// Option configures the process's devices: see Open.
type Option func(*options)

type options = core.Options

// WithFaults injects faults into everything that is sent: a list such as
// "loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=1ms,seed=42". The same seed gives the same
// faults for the same traffic.
//
// Devices of iWARP over TCP have corrupt, delay, jitter and cut, because TCP repairs the others.
// cut is the share of writes that reset the connection.
func WithFaults(spec string) Option { return func(o *options) { o.Faults = spec } }

// WithCapture writes every packet sent and received to a pcapng file, which Wireshark and
// `verbena dump` read.
func WithCapture(path string) Option { return func(o *options) { o.CapturePath(path) } }

// WithCaptureRing keeps the newest packets sent and received in memory, as many as a file of these
// bytes holds. It writes them to a pcapng file when a completion fails, once for a burst of
// failures, and on SIGUSR1. It does so when the first attempt to connect fails, too. `verbena stat
// dump` fetches them at any time. Flushed work requests do not count as failed.
//
// The file has the name path, or one with a number before the extension if that is there already.
// A line on standard error names it. bytes is from 1 MiB to 1 GiB. Receivers of SIGUSR1 in the
// program get it, too. A program that ignores the signal still ignores it.
//
// The file comes 20 ms after the failure: a program that ends on it must call FlushCapture before
// os.Exit and log.Fatal.
func WithCaptureRing(path string, bytes int) Option {
	return func(o *options) {
		o.Ring = &recorder.Options{Bytes: bytes, File: path, Signal: recorder.OnSignal,
			Tell: func(line string) { fmt.Fprintln(os.Stderr, "verbena:", line) }}
	}
}

// WithCaptureCalls writes verbs calls, completions and asynchronous events into the capture too,
// between the packets and with times of the same clock. They are the lines that WithLogger would
// write at slog.LevelDebug. `verbena view` shows them beside the packets, Wireshark as entries of
// systemd's journal. It needs WithCapture or WithCaptureRing.
func WithCaptureCalls() Option { return func(o *options) { o.Calls = core.LogCalls } }

// WithoutLocalPath sends packets between queue pairs of this host through UDP sockets, as those
// to other hosts. By default, packets of connected queue pairs of one user's processes go
// through shared memory, where captures of the interface do not show them. WithFaults,
// WithCapture and WithCaptureRing imply this option.
func WithoutLocalPath() Option { return func(o *options) { o.NoLocal = true } }

// WithCongestionControl chooses the congestion control of RC queue pairs over RoCE:
// "delivery-rate", the default, or "dcqcn", the algorithm of RoCE adapters.
func WithCongestionControl(name string) Option { return func(o *options) { o.Congestion = name } }

// WithXDP sends and receives packets of RoCE and TRP past the kernel's IP stack (AF_XDP). It names
// their interfaces in a list such as "eth0" or "eth0:4,eth1". The number is that of the queues, 1
// by default. Packets to neighbours that the kernel has yet to find go through UDP sockets. With
// WithFaults or WithCapture all packets do.
//
// The process that keeps port 4791 needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, this one nothing.
func WithXDP(interfaces string) Option { return func(o *options) { o.XDP = interfaces } }

// WithLogger writes to a log what this process does with its devices. Calls that make, change or
// remove an object are lines at slog.LevelInfo, as are events of package rdmacm. Posted work
// requests, completions, and queries of devices, ports, queue pairs, SRQs and Counters are at
// slog.LevelDebug. Refused calls, failed completions, connections that failed and asynchronous
// events are at slog.LevelWarn, with reason and peer. Flushed work requests do not count as failed.
//
// The variable VERBENA_LOG has no effect on a Go program, which may pass a logger of its level:
//
//	err := level.UnmarshalText([]byte(os.Getenv("VERBENA_LOG"))) // of a slog.Level
//	h := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
//	dev, err := verbs.Open("", verbs.WithLogger(slog.New(h)))
//
// The log's handler must call neither package verbs nor rdmacm: the queue pair or the identifier
// that a line is about may be locked.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.Log = core.LogTo(l) } }

// WithoutSharing reserves UDP port 4791 for this process alone.
func WithoutSharing() Option { return func(o *options) { o.Solo = true } }
