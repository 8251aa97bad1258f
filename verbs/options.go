package verbs

import (
	"verbena/internal/engine"
)

// Option configures the process's devices at the first Open.
type Option func(*options)

type options struct {
	faults  string
	capture string
	solo    bool
}

// WithFaults injects faults into everything sent: a list such as
// "loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=1ms,seed=42". The same seed
// gives the same faults for the same traffic.
func WithFaults(spec string) Option { return func(o *options) { o.faults = spec } }

// WithCapture writes every packet sent and received to a pcapng file that
// Wireshark opens.
func WithCapture(path string) Option { return func(o *options) { o.capture = path } }

// WithoutSharing takes UDP port 4791 for this process alone.
func WithoutSharing() Option { return func(o *options) { o.solo = true } }

// start opens the engine as the options say.
func (h *host) start(opts []Option) error {
	var o options
	for _, f := range opts {
		f(&o)
	}
	h.undo = func() {}
	var err error
	h.engine, err = engine.New(engine.Options{Solo: o.solo})
	return err
}
