// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"verbena/internal/congestion"
	"verbena/internal/device"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/transport"
	"verbena/internal/transport/roce"
	"verbena/internal/wire/pcap"
)

// Options configure the process's devices at the first Open.
type Options struct {
	Faults string // to inject, as faultcap.ParseFaults has them
	// opens the capture file, each time the first context opens; nil without
	Capture func() (io.WriteCloser, error)
	Solo    bool // UDP port 4791 is for this process alone
	NoLocal bool // packets within the host go through sockets, too
	// Congestion names the congestion control of RC over RoCE, as congestion.ParseAlgorithm has
	// them.
	Congestion string
}

// CapturePath sets Capture for a file of a name; none with an empty one.
func (o *Options) CapturePath(path string) {
	o.Capture = nil
	if path != "" {
		o.Capture = func() (io.WriteCloser, error) { return fdtrack.Create(path) }
	}
}

// start opens the engine as the options say, or nothing.
func (h *host) start(k device.Kind, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	faults, err := faultcap.ParseFaults(o.Faults)
	if err != nil {
		return faultsError(err)
	}
	algorithm, err := congestion.ParseAlgorithm(o.Congestion)
	if err != nil {
		return invalid("congestion", "%v", err)
	}
	e := transport.Options{Faults: faults,
		Options: roce.Options{Solo: o.Solo, NoLocal: o.NoLocal, Congestion: algorithm}}
	h.faults, h.captures = faults, o.Capture != nil
	if err := h.takes(k); err != nil { // before there is a file
		return err
	}
	h.undo = func() error { return nil }
	h.flush = h.undo
	if o.Capture != nil {
		w, err := createCapture(o.Capture)
		if err != nil {
			return captureError(err)
		}
		e.Capture, h.undo, h.flush = faultcap.NewCapture(w), w.Close, w.Flush
	}
	if h.engine, err = transport.Start(e); err != nil {
		h.undo()
	}
	return err
}

func createCapture(open func() (io.WriteCloser, error)) (*pcap.Writer, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	return pcap.NewWriter(f, "verbena"), nil
}

// faultsError returns an error in the faults as one of verbs.
func faultsError(err error) error {
	if err == nil {
		return nil
	}
	return invalid("faults", "%s", strings.TrimPrefix(err.Error(), "faults: "))
}

// captureError returns the reason for which a capture file cannot be made, with the system's errno.
func captureError(err error) error {
	errno := syscall.EIO
	errors.As(err, &errno)
	var path *fs.PathError
	if errors.As(err, &path) {
		return fail(errno, "capture", "cannot create %s", path.Path)
	}
	return fail(errno, "capture", "%v", err)
}
