//go:build cabi

package main

// #include <stdlib.h>
import "C"

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"verbena/internal/device"
)

// environment is what `verbena run` and the user say of the engine. It is read
// once, when the first context is opened.
type environment struct {
	faults  string // VERBENA_FAULTS: as verbs.WithFaults
	capture string // VERBENA_PCAP: as verbs.WithCapture; %p is the process's number
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

// selection is which devices the front lists, as the user says now:
// VERBENA_DEVICES.
func selection() device.Selection { return device.ParseSelection(getenv("VERBENA_DEVICES")) }

// getenv asks C: Go has the environment that the process was started with, and
// the application may have changed it since.
func getenv(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.GoString(C.getenv(n)) // "" for NULL
}
