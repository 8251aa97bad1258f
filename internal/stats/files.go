// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FillCommand is the command of verbena-keeper that calls FillFiles with the directory behind it.
const FillCommand = "counters"

// rootPrefix begins the name of a directory with the files of a kernel driver. The number of the
// network namespace follows, a dash, and the selection of devices.
const rootPrefix = "root-"

// RootName returns the name of the directory for the devices of a selection in a network namespace,
// below the processes' directory.
func RootName(namespace uint64, selection string) string {
	return fmt.Sprintf("%s%d-%s", rootPrefix, namespace, selection)
}

// classDir holds the devices below a root.
const classDir = "sys/class/infiniband"

// HWFiles and PortFiles are the directories of a port with a file for each counter.
const (
	HWFiles   = "ports/1/hw_counters"
	PortFiles = "ports/1/counters"
)

// derived are the counters of rdma_rxe that sum counts of other names, or none: acknowledgements
// are never put off to a task here, and a link that goes down is not counted.
var derived = map[string][]string{
	"ack_deferred":        nil,
	"completer_retry_err": {"rcvd_seq_err", "implied_nak_seq_err", "local_ack_timeout_err"},
	"link_downed":         nil,
	"send_err":            {"over_mtu"},
}

// HWCounterFiles returns the names of the files in HWFiles of a device whose queue pairs' counts
// have these names. Those of a RoCE device are the ones of rdma_rxe and more.
func HWCounterFiles(names []string, roce bool) []string {
	if roce {
		for name := range derived {
			names = append(names[:len(names):len(names)], name)
		}
	}
	return names
}

// HWCounter returns the value of a file in HWFiles from the counts of a port.
func HWCounter(name string, counts map[string]uint64) (v uint64) {
	from, ok := derived[name]
	if !ok {
		return counts[name]
	}
	for _, n := range from {
		v += counts[n]
	}
	return v
}

// portCounters are the files of PortFiles, by their names in Linux. Those without a count stay 0.
var portCounters = map[string]func(counts map[string]uint64) uint64{
	"VL15_dropped":                    nil,
	"excessive_buffer_overrun_errors": nil,
	"link_downed":                     nil,
	"link_error_recovery":             nil,
	"local_link_integrity_errors":     nil,
	"port_rcv_constraint_errors":      nil,
	"port_rcv_data":                   units("rcvd_bytes"),
	"port_rcv_errors":                 RcvErrors,
	"port_rcv_packets":                func(c map[string]uint64) uint64 { return c["rcvd_pkts"] },
	"port_rcv_remote_physical_errors": nil,
	"port_rcv_switch_relay_errors":    nil,
	"port_xmit_constraint_errors":     nil,
	"port_xmit_data":                  units("sent_bytes"),
	"port_xmit_discards":              nil,
	"port_xmit_packets":               func(c map[string]uint64) uint64 { return c["sent_pkts"] },
	"port_xmit_wait":                  nil,
	"symbol_error":                    nil,
}

// octetsPerUnit is the unit of PortXmitData and PortRcvData. Spec: IBTA vol. 1, 16.1.3.5.
const octetsPerUnit = 4

// units returns the function for a count of octets.
func units(name string) func(map[string]uint64) uint64 {
	return func(c map[string]uint64) uint64 { return c[name] / octetsPerUnit }
}

// RcvErrors returns a port's PortRcvErrors: malformed packets, and those with a wrong ICRC.
func RcvErrors(counts map[string]uint64) uint64 {
	n := counts["bad_icrc"]
	for name, v := range counts {
		if strings.HasPrefix(name, "malformed_") {
			n += v
		}
	}
	return n
}

// PortCounterFiles returns the names of the files in PortFiles.
func PortCounterFiles() (names []string) {
	for name := range portCounters {
		names = append(names, name)
	}
	return names
}

// ParseRoot returns the directory of the processes that a root belongs to, and their network
// namespace.
func ParseRoot(root string) (dir, namespace string, err error) {
	dir, name := filepath.Split(root)
	rest, ok := strings.CutPrefix(name, rootPrefix)
	namespace, _, ok2 := strings.Cut(rest, "-")
	if !ok || !ok2 {
		return "", "", fmt.Errorf("stats: %s is not a root of verbena run", root)
	}
	return filepath.Clean(dir), namespace, nil
}

// Devices returns the names of the devices of a root.
func Devices(root string) (names []string, err error) {
	list, err := os.ReadDir(filepath.Join(root, classDir))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// FillFiles writes the counts of now into the counter files that a root has. Readers see a file
// as it was or as it is.
func FillFiles(root string) error {
	dir, namespace, err := ParseRoot(root)
	if err != nil {
		return err
	}
	devices, err := Devices(root)
	if err != nil {
		return err
	}
	class := filepath.Join(root, classDir)
	var errs []error
	for device, counts := range Ports(dir, namespace, devices) {
		errs = append(errs, fill(filepath.Join(class, device, HWFiles), func(name string) uint64 {
			return HWCounter(name, counts)
		}), fill(filepath.Join(class, device, PortFiles), func(name string) uint64 {
			if f := portCounters[name]; f != nil {
				return f(counts)
			}
			return 0
		}))
	}
	return errors.Join(errs...)
}

// HWCounters returns the counters that a root has in HWFiles of a device, with the values of now.
func HWCounters(root, device string) (list []Counter) {
	dir, namespace, err := ParseRoot(root)
	files, readErr := os.ReadDir(filepath.Join(root, classDir, device, HWFiles))
	if err != nil || readErr != nil {
		return nil
	}
	counts := Ports(dir, namespace, []string{device})[device]
	for _, f := range files {
		if name := f.Name(); counter(name) {
			list = append(list, Counter{name, HWCounter(name, counts)})
		}
	}
	return list
}

// Lifespan is the file that says how old values may be, in milliseconds. It is no counter.
const Lifespan = "lifespan"

// counter reports whether a file is one of a counter, and not a new one that is being written.
func counter(name string) bool { return name != Lifespan && !strings.Contains(name, ".") }

// fill writes the values of the files that a directory has. One without the directory has none.
func fill(dir string, value func(name string) uint64) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range list {
		if name := e.Name(); counter(name) {
			errs = append(errs, replace(filepath.Join(dir, name), value(name)))
		}
	}
	return errors.Join(append(errs, err)...)
}

// replace makes a file one with a value.
func replace(path string, value uint64) error {
	text := strconv.FormatUint(value, 10) + "\n"
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
