// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"verbena/internal/congestion"
	"verbena/internal/device"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/recorder"
	"verbena/internal/transport"
	"verbena/internal/transport/roce"
	"verbena/internal/wire/pcap"
)

// Options configure the process's devices at the first Open.
type Options struct {
	Faults string // to inject, as faultcap.ParseFaults has them
	// opens the capture file, each time the first context opens; nil without
	Capture func() (io.WriteCloser, error)
	// Ring makes the newest packets be kept instead, each time the first context opens; nil without
	Ring    *recorder.Options
	Solo    bool // UDP port 4791 is for this process alone
	NoLocal bool // packets within the host go through sockets, too
	// Congestion names the congestion control of RC over RoCE, as congestion.ParseAlgorithm has
	// them.
	Congestion string
	// XDP has the interfaces whose RoCE packets go past the kernel's IP stack, as
	// roce.ParseFrames has them.
	XDP string

	Log Log // of verbs; nil without one
	// Calls makes the log that goes into the capture: LogCalls, or nil for none. It is a function
	// so that the linker leaves the log's code out of other programs.
	Calls func(show func(line string, failed bool)) Log

	capturePath string // of CapturePath
}

// CapturePath sets Capture for a file of a name; none with an empty one.
func (o *Options) CapturePath(path string) {
	o.Capture, o.capturePath = nil, path
	if path != "" {
		o.Capture = func() (io.WriteCloser, error) { return fdtrack.Create(path) }
	}
}

// holds refuses later options that differ from o, the process's. nil stands for none.
func (o *Options) holds(later *Options) error {
	if later == nil {
		return nil
	}
	algorithm, err := congestion.ParseAlgorithm(later.Congestion)
	if err != nil {
		return invalid("congestion", "%v", err)
	}
	if _, err := roce.ParseFrames(later.XDP); err != nil {
		return invalid("xdp", "%v", err)
	}
	own, _ := congestion.ParseAlgorithm(o.Congestion) // start has checked it
	for _, c := range []struct {
		name  string
		holds bool
		have  any
	}{
		{"faults", later.Faults == "" || later.Faults == o.Faults, o.Faults},
		{"capture", later.Capture == nil || later.capturePath != "" &&
			later.capturePath == o.capturePath, o.capturePath},
		{"ring", later.Ring == nil || o.Ring != nil && later.Ring.File == o.Ring.File &&
			later.Ring.Bytes == o.Ring.Bytes, ringName(o.Ring)},
		{"sharing", !later.Solo || o.Solo, "on"},
		{"local path", !later.NoLocal || o.NoLocal, "on"},
		{"congestion", later.Congestion == "" || algorithm == own, own},
		{"logger", later.Log == nil || later.Log == o.Log, "another one"},
		{"capture calls", later.Calls == nil || o.Calls != nil, "off"},
		{"xdp", later.XDP == "" || later.XDP == o.XDP, o.XDP},
	} {
		if !c.holds {
			return fail(syscall.EBUSY, c.name, "is %q for the process since its first Open: "+
				"give it there", c.have)
		}
	}
	return nil
}

// ringName describes a ring in an error.
func ringName(o *recorder.Options) string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("%d bytes for %s", o.Bytes, o.File)
}

// start opens the engine as the options say, or nothing.
func (h *host) start(k device.Kind, opts *Options) error {
	if opts != nil {
		h.options = *opts
	}
	o := &h.options
	faults, err := faultcap.ParseFaults(o.Faults)
	if err != nil {
		return faultsError(err)
	}
	algorithm, err := congestion.ParseAlgorithm(o.Congestion)
	if err != nil {
		return invalid("congestion", "%v", err)
	}
	frames, err := roce.ParseFrames(o.XDP)
	if err != nil {
		return invalid("xdp", "%v", err)
	}
	e := transport.Options{Faults: faults, Options: roce.Options{Solo: o.Solo, NoLocal: o.NoLocal,
		Congestion: algorithm, Frames: frames}}
	if o.Ring != nil && (o.Ring.Bytes < recorder.MinBytes || o.Ring.Bytes > recorder.MaxBytes) {
		return invalid("ring", "%d bytes: must be from %d to %d", o.Ring.Bytes, recorder.MinBytes,
			recorder.MaxBytes)
	}
	if o.Ring != nil && o.Capture != nil {
		return invalid("capture", "is given, and a ring of packets, too: give one of them")
	}
	if o.Calls != nil && o.Capture == nil && o.Ring == nil {
		return invalid("capture calls", "are to be captured without a capture or a ring: give "+
			"one of them")
	}
	h.faults, h.captures = faults, o.Capture != nil || o.Ring != nil
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
	if o.Ring != nil {
		if dir := filepath.Dir(o.Ring.File); !isDirectory(dir) {
			return fail(syscall.ENOENT, "ring", "there is no directory %s", dir)
		}
		r := recorder.New(*o.Ring)
		e.Capture, h.recorder, h.undo, h.flush = faultcap.NewCapture(r), r, r.Close, r.Flush
	}
	h.log = o.Log
	if o.Calls != nil {
		h.log = bothLogs(o.Log, o.Calls(e.Capture.Call))
	}
	if h.engine, err = transport.Start(e); err != nil {
		h.undo()
	}
	return xdpError(err)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// xdpError returns the reason for which an interface's frames are not to be had as an error of
// verbs, with the system's errno.
func xdpError(err error) error {
	var frames *roce.FramesError
	if !errors.As(err, &frames) {
		return err
	}
	errno := syscall.EINVAL
	errors.As(err, &errno)
	return fail(errno, "xdp", "%v", frames)
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
