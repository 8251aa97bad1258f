// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/wire/pcap"
)

// Option configures the process's devices at the first Open.
type Option func(*options)

type options struct {
	faults  string
	capture func() (io.WriteCloser, error) // opens the file; nil without
	solo    bool
	noLocal bool
}

// WithFaults injects faults into everything sent: a list such as
// "loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=1ms,seed=42". The same seed
// gives the same faults for the same traffic. Devices of iWARP over TCP, which
// repairs the rest, have corrupt, delay, jitter and cut, a share of writes that
// reset the connection.
func WithFaults(spec string) Option { return func(o *options) { o.faults = spec } }

// WithCapture writes every packet sent and received to a pcapng file that
// Wireshark opens.
func WithCapture(path string) Option {
	if path == "" {
		return func(*options) {}
	}
	return withCaptureTo(func() (io.WriteCloser, error) { return fdtrack.Create(path) })
}

// withCaptureTo captures to the file that open returns.
func withCaptureTo(open func() (io.WriteCloser, error)) Option {
	return func(o *options) { o.capture = open }
}

// WithoutLocalPath has packets between queue pairs of this host go through UDP
// sockets, as those to other hosts do. Otherwise those of connected queue pairs
// of one user's processes go through shared memory, which nobody sees but a
// program that looks at the interface. WithFaults and WithCapture imply it.
func WithoutLocalPath() Option { return func(o *options) { o.noLocal = true } }

// WithoutSharing takes UDP port 4791 for this process alone.
func WithoutSharing() Option { return func(o *options) { o.solo = true } }

// start opens the engine as the options say, or nothing.
func (h *host) start(k device.Kind, opts []Option) error {
	var o options
	for _, f := range opts {
		f(&o)
	}
	faults, err := faultcap.ParseFaults(o.faults)
	if err != nil {
		return faultsError(err)
	}
	e := engine.Options{Solo: o.solo, NoLocal: o.noLocal, Faults: faults}
	h.faults, h.captures = faults, o.capture != nil
	if err := h.takes(k); err != nil { // before there is a file
		return err
	}
	h.undo = func() error { return nil }
	h.flush = h.undo
	if o.capture != nil {
		w, err := createCapture(o.capture)
		if err != nil {
			return captureError(err)
		}
		e.Capture, h.undo, h.flush = faultcap.NewCapture(w), w.Close, w.Flush
	}
	if h.engine, err = engine.New(e); err != nil {
		h.undo()
	}
	return err
}

func createCapture(open func() (io.WriteCloser, error)) (*pcap.Writer, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	w, err := pcap.NewWriter(f, "verbena")
	if err != nil {
		f.Close()
	}
	return w, err
}

// faultsError makes what tap says of faults one of ours.
func faultsError(err error) error {
	if err == nil {
		return nil
	}
	return invalid("faults", "%s", strings.TrimPrefix(err.Error(), "faults: "))
}

// captureError is why a capture file cannot be made, with the system's errno.
func captureError(err error) error {
	errno := syscall.EIO
	errors.As(err, &errno)
	var path *fs.PathError
	if errors.As(err, &path) {
		return fail(errno, "capture", "cannot create %s", path.Path)
	}
	return fail(errno, "capture", "%v", err)
}
