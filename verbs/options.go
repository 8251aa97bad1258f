package verbs

import (
	"errors"
	"io/fs"
	"syscall"

	"verbena/internal/engine"
	"verbena/internal/osio/tap"
	"verbena/internal/wire/pcap"
)

// Option configures the process's devices at the first Open.
type Option func(*options)

type options struct {
	faults  string
	capture string
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
func WithCapture(path string) Option { return func(o *options) { o.capture = path } }

// WithoutLocalPath has packets between queue pairs of this host go through UDP
// sockets, as those to other hosts do. Otherwise those of connected queue pairs
// of one user's processes go through shared memory, which nobody sees but a
// program that looks at the interface. WithFaults and WithCapture imply it.
func WithoutLocalPath() Option { return func(o *options) { o.noLocal = true } }

// WithoutSharing takes UDP port 4791 for this process alone.
func WithoutSharing() Option { return func(o *options) { o.solo = true } }

// start opens the engine as the options say, or nothing.
func (h *host) start(opts []Option) error {
	var o options
	for _, f := range opts {
		f(&o)
	}
	faults, err := tap.ParseFaults(o.faults)
	if err != nil {
		return invalid("faults", "%v", err)
	}
	e := engine.Options{Solo: o.solo, NoLocal: o.noLocal, Faults: faults}
	h.faults = faults
	h.undo = func() error { return nil }
	h.flush = h.undo
	if o.capture != "" {
		w, err := pcap.Create(o.capture, "verbena")
		if err != nil {
			return captureError(err)
		}
		e.Capture, h.captures, h.undo, h.flush = w, true, w.Close, w.Flush
	}
	if h.engine, err = engine.New(e); err != nil {
		h.undo()
	}
	return err
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
