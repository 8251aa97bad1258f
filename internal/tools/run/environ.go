// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"runtime"
	"slices"
	"strings"
)

// environment is a list of NAME=value, as os.Environ has it.
type environment []string

// set gives a variable its value and drops an earlier one.
func (e environment) set(name, value string) environment {
	return append(e.unset(name), name+"="+value)
}

func (e environment) unset(name string) environment {
	return slices.DeleteFunc(e, func(s string) bool { return strings.HasPrefix(s, name+"=") })
}

func (e environment) get(name string) string {
	for _, s := range e {
		if value, ok := strings.CutPrefix(s, name+"="); ok {
			return value
		}
	}
	return ""
}

// prepend puts an entry before those of a list with colons; once, as commands
// may be nested.
func (e environment) prepend(name, entry string) environment {
	list := []string{entry}
	for _, s := range strings.Split(e.get(name), ":") {
		if s != "" && s != entry {
			list = append(list, s)
		}
	}
	return e.set(name, strings.Join(list, ":"))
}

// addOption puts an option before those that a variable has, which then have the last
// word; once, as commands may be nested.
func (e environment) addOption(name, separator, option string) environment {
	old := e.get(name)
	if slices.Contains(strings.Split(old, separator), option) {
		return e
	}
	return e.set(name, strings.TrimSuffix(option+separator+old, separator))
}

// withoutRDTSCP lets valgrind run the engine on a processor whose cpuinfo, /proc/cpuinfo, lacks
// RDTSCP. valgrind 3.19 says of such a processor that it has RDTSCP, and ends a program that
// executes it. Go's runtime believes valgrind unless GODEBUG says otherwise.
func (e environment) withoutRDTSCP(cpuinfo string) environment {
	lacks := strings.Contains(cpuinfo, "\nflags") && !strings.Contains(cpuinfo, " rdtscp")
	if runtime.GOARCH != "amd64" || !lacks {
		return e
	}
	return e.addOption("GODEBUG", ",", "cpu.rdtscp=off")
}

// Variables that the options set, for the libraries to read.
const (
	devicesVariable = "VERBENA_DEVICES" // device.ParseSelection
	faultsVariable  = "VERBENA_FAULTS"  // tap.ParseFaults
	captureVariable = "VERBENA_PCAP"
	ringVariable    = "VERBENA_PCAP_RING" // recorder.ParseSize
	callsVariable   = "VERBENA_PCAP_CALLS"

	logVariable        = "VERBENA_LOG"        // core.NewLog
	congestionVariable = "VERBENA_CONGESTION" // congestion.ParseAlgorithm
)

// variables returns the environment of the program. A variable of an option
// that was not given stays as it is: it may come from a command around this.
func (o *options) variables(e environment, libraries, root string) (environment, error) {
	e = slices.Clone(e)
	e = e.prepend("LD_LIBRARY_PATH", libraries)
	e = e.prepend("LD_PRELOAD", libraries+"/"+preloadName)
	e = e.set("VERBENA_ROOT", root)
	e = e.addOption("VALGRIND_OPTS", " ", "--suppressions="+libraries+"/"+suppressionsName)
	// The engine has threads, which in a child of a fork are started anew. ThreadSanitizer
	// ends such a child unless told otherwise.
	e = e.addOption("TSAN_OPTIONS", ":", "die_after_fork=0")
	if o.devices != "" {
		e = e.set(devicesVariable, o.devices)
	}
	if o.faults != "" {
		e = e.set(faultsVariable, o.faults)
	}
	if o.ring != "" {
		e = e.set(ringVariable, o.ring)
	} else if o.capture != "" { // of all packets, whatever a command around this keeps
		e = e.unset(ringVariable)
	}
	if o.calls {
		e = e.set(callsVariable, "1")
	}
	if file := o.captureFile(); file != "" {
		file, err := perProcess(file)
		if err != nil {
			return nil, err
		}
		e = e.set(captureVariable, file)
	}
	if o.noLocal {
		e = e.set("VERBENA_LOCAL", "off")
	}
	if o.debug {
		e = e.set("VERBENA_DEBUG", "1")
	}
	if o.log != "" {
		e = e.set(logVariable, o.log)
	}
	return e, nil
}

// ringFile names the files of --pcap-ring without --pcap.
const ringFile = "verbena-%p.pcapng"

// captureFile returns the name for captures, empty if there are none.
func (o *options) captureFile() string {
	if o.capture == "" && o.ring != "" {
		return ringFile
	}
	return o.capture
}

// captureOption names the option that captureFile comes from.
func (o *options) captureOption() string {
	if o.capture == "" {
		return "--pcap-ring"
	}
	return "--pcap"
}
