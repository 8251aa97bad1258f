// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #define _GNU_SOURCE
// #include <stdlib.h>
// #include <sys/auxv.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"verbena/internal/core"
	"verbena/internal/device"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/recorder"
	"verbena/internal/sys/secenv"
)

func init() {
	if C.getauxval(C.AT_SECURE) != 0 {
		secenv.Distrust()
	}
}

// environment has the settings of `verbena run` and of the user. It is read once, when the first
// context is opened.
type environment struct {
	faults  string // VERBENA_FAULTS: as verbs.WithFaults
	capture string // VERBENA_PCAP: a file that does not exist; %p is the process ID
	ring    string // VERBENA_PCAP_RING: the size of a ring that is written to that file instead
	// capture, or another name without it, from the root
	ringFile string
	calls    bool // VERBENA_PCAP_CALLS=1: as verbs.WithCaptureCalls
	noLocal  bool // VERBENA_LOCAL=off: as verbs.WithoutLocalPath
	// VERBENA_CONGESTION: as verbs.WithCongestionControl
	congestion string
	xdp        string // VERBENA_XDP: as verbs.WithXDP
	log        string // VERBENA_LOG: the level of verbs.WithLogger; lines go to stderr
	debug      bool   // VERBENA_DEBUG=1: the reason of each failed call goes to stderr
}

var env = sync.OnceValue(func() environment {
	capture := strings.ReplaceAll(getenv("VERBENA_PCAP"), "%p", strconv.Itoa(os.Getpid()))
	return environment{
		faults:     getenv("VERBENA_FAULTS"),
		capture:    capture,
		ringFile:   ringFile(capture),
		ring:       getenv("VERBENA_PCAP_RING"),
		calls:      getenv("VERBENA_PCAP_CALLS") == "1",
		noLocal:    getenv("VERBENA_LOCAL") == "off",
		congestion: getenv("VERBENA_CONGESTION"),
		xdp:        getenv("VERBENA_XDP"),
		log:        getenv("VERBENA_LOG"),
		debug:      getenv("VERBENA_DEBUG") == "1",
	}
})

// options returns the options for the first context of the process.
func (e environment) options() (*core.Options, error) {
	log, err := core.NewLog(os.Stderr, e.log)
	if err != nil {
		return nil, misconfigured{fmt.Errorf("VERBENA_LOG: %w", err)}
	}
	o := &core.Options{Faults: e.faults, NoLocal: e.noLocal, Congestion: e.congestion,
		XDP: e.xdp, Log: log}
	if e.calls {
		o.Calls = core.LogCalls
	}
	if e.ring != "" {
		bytes, err := recorder.ParseSize(e.ring)
		if err != nil {
			return nil, misconfigured{fmt.Errorf("VERBENA_PCAP_RING: %w", err)}
		}
		o.Ring = &recorder.Options{Bytes: bytes, File: e.ringFile, Tell: tell, Signal: onSignal,
			Wrote: wrote}
	} else if e.capture != "" {
		o.Capture = capture().Open
	}
	return o, nil
}

// ringFile returns the absolute name of the file for a ring: the program may change its directory.
func ringFile(name string) string {
	if name == "" {
		name = fmt.Sprintf("verbena-%d.pcapng", os.Getpid())
	}
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

// ofVariable adds to an error of an option the variable that the option came from.
func ofVariable(err error) error {
	var option *device.Error
	switch {
	case !errors.As(err, &option):
	case option.Arg == "faults":
		return misconfigured{fmt.Errorf("VERBENA_FAULTS: %w", err)}
	case option.Arg == "congestion":
		return misconfigured{fmt.Errorf("VERBENA_CONGESTION: %w", err)}
	case option.Arg == "capture calls":
		return misconfigured{fmt.Errorf("VERBENA_PCAP_CALLS: %w: VERBENA_PCAP or "+
			"VERBENA_PCAP_RING", err)}
	case option.Arg == "xdp":
		return misconfigured{fmt.Errorf("VERBENA_XDP: %w", err)}
	case option.Arg == "capture" && errors.Is(err, syscall.EINVAL): // the kind of device has none
		return misconfigured{fmt.Errorf("VERBENA_PCAP: %w", err)}
	case option.Arg == "ring":
		return misconfigured{fmt.Errorf("VERBENA_PCAP_RING: %w", err)}
	case option.Arg == "capture":
		return misconfigured{fmt.Errorf("VERBENA_PCAP: %w; name a file that is not there yet, "+
			"in a directory where this process may write", err)}
	}
	return err
}

// capture opens the capture file once per process, however often the first context is opened.
var capture = sync.OnceValue(func() *fdtrack.Exclusive {
	return &fdtrack.Exclusive{Path: env().capture}
})

// selection returns the devices that the front lists, as VERBENA_DEVICES selects them now.
func selection() device.Selection { return device.ParseSelection(getenv("VERBENA_DEVICES")) }

// getenv reads the environment of C: that of Go is a copy from the start of the process, and the
// application may have changed it since. A program with privileges that its user lacks gets no
// variables: the user could name a file for it to overwrite.
func getenv(name string) string {
	return C.GoString(C.secure_getenv(terminated(name))) // "" for NULL
}

// terminated returns s as a string of C in Go memory, for one call. malloc would not do: the
// goroutine may change threads, and ThreadSanitizer takes the free by another thread for a race.
func terminated(s string) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.StringData(s + "\x00")))
}
