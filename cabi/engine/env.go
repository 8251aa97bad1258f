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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"verbena/internal/core"
	"verbena/internal/device"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/secenv"
)

func init() {
	if C.getauxval(C.AT_SECURE) != 0 {
		secenv.Distrust()
	}
}

// environment is what `verbena run` and the user say of the engine. It is read
// once, when the first context is opened.
type environment struct {
	faults  string // VERBENA_FAULTS: as verbs.WithFaults
	capture string // VERBENA_PCAP: a file that is not there yet; %p is the process's number
	noLocal bool   // VERBENA_LOCAL=off: as verbs.WithoutLocalPath
	debug   bool   // VERBENA_DEBUG=1: every refused call's reason goes to stderr
}

var env = sync.OnceValue(func() environment {
	return environment{
		faults:  getenv("VERBENA_FAULTS"),
		capture: strings.ReplaceAll(getenv("VERBENA_PCAP"), "%p", strconv.Itoa(os.Getpid())),
		noLocal: getenv("VERBENA_LOCAL") == "off",
		debug:   getenv("VERBENA_DEBUG") == "1",
	}
})

// options returns the options of the process's first context, nil for none.
func (e environment) options() *core.Options {
	if e.faults == "" && e.capture == "" && !e.noLocal {
		return nil
	}
	o := &core.Options{Faults: e.faults, NoLocal: e.noLocal}
	if e.capture != "" {
		o.Capture = capture().Open
	}
	return o
}

// ofVariable returns an error of an option with the variable that the option came from.
func ofVariable(err error) error {
	var option *device.Error
	switch {
	case !errors.As(err, &option):
	case option.Arg == "faults":
		return misconfigured{fmt.Errorf("VERBENA_FAULTS: %w", err)}
	case option.Arg == "capture" && errors.Is(err, syscall.EINVAL): // the kind of device has none
		return misconfigured{fmt.Errorf("VERBENA_PCAP: %w", err)}
	case option.Arg == "capture":
		return misconfigured{fmt.Errorf("VERBENA_PCAP: %w; name a file that is not there yet, in a directory where this process may write", err)}
	}
	return err
}

// capture is the capture file of the process, which opens its first context more than
// once.
var capture = sync.OnceValue(func() *fdtrack.Exclusive { return &fdtrack.Exclusive{Path: env().capture} })

// selection is which devices the front lists, as the user says now:
// VERBENA_DEVICES.
func selection() device.Selection { return device.ParseSelection(getenv("VERBENA_DEVICES")) }

// getenv asks C: Go has the environment that the process was started with, and
// the application may have changed it since. A program with privileges that its user
// lacks has no variables: the user could name a file for it to overwrite.
func getenv(name string) string {
	return C.GoString(C.secure_getenv(terminated(name))) // "" for NULL
}

// terminated returns s as C has it, for one call, in Go's memory. Memory of malloc would be
// freed by another thread where the goroutine has changed threads, which
// ThreadSanitizer does not see and takes for a race.
func terminated(s string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }
