// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// layers is the tree from the bottom up. A package imports packages of lower layers only, which
// stand above it here. A star stands for one folder name.
//
// A new package needs a row: the lowest one that is above all it imports.
var layers = []struct {
	what     string
	packages []string
}{
	{"values", []string{"ib", "internal/monotime", "internal/version", "internal/fsm"}},
	{"emulated networks", []string{"internal/simnet"}},
	{"wire formats", []string{"internal/wire/roce", "internal/wire/cm", "internal/wire/trp", "internal/wire/iwarp", "internal/wire/ntb", "internal/wire/rsocket", "internal/wire/ether"}},
	{"flow steering", []string{"internal/steer"}},
	{"management datagrams of applications", []string{"internal/umad"}},
	{"capture files", []string{"internal/wire/pcap"}},
	{"reading capture files", []string{"internal/wire/pcapread"}},
	{"memory", []string{"internal/mem"}},
	{"round trips", []string{"internal/rtt"}},
	{"windows of senders", []string{"internal/congestion"}},
	{"framing of streams and datagrams", []string{"internal/iwarp/mpa", "internal/iwarp/trp"}},
	{"windows into memory", []string{"internal/ntb/window"}},
	{"NTB links", []string{"internal/ntb/channel"}},
	{"queues", []string{"internal/queue"}},
	{"common to all queue pairs", []string{"internal/qp"}},
	{"common to protocol machines", []string{"internal/roce"}},
	{"protocol machines", []string{"internal/roce/*", "internal/cm/*", "internal/iwarp/rdmap", "internal/ntb/rdma", "internal/rstream"}},
	{"flows on emulated networks", []string{"internal/flows"}},
	{"descriptors", []string{"internal/sys/fdtrack", "internal/sys/sandbox", "internal/sys/secenv"}},
	{"time, chance and places", []string{"internal/sys/entropy", "internal/sys/futex", "internal/sys/numa", "internal/sys/rundir", "internal/sys/sockaddr"}},
	{"sockets", []string{"internal/sys/udp", "internal/sys/tcp"}},
	{"frames of interfaces", []string{"internal/sys/xsk"}},
	{"services on sockets, and observers", []string{"internal/sys/*", "internal/ntb/backend", "internal/trace", "internal/stats"}},
	{"timelines of captures", []string{"internal/timeline"}},
	{"XDP programs", []string{"internal/sys/xdp"}},
	{"policy of polling and waking", []string{"internal/engine/policy"}},
	{"engine and device", []string{"internal/engine", "internal/device"}},
	{"answers about devices", []string{"internal/rdmanl"}},
	{"same-host rings, and frames of interfaces for transports", []string{"internal/transport/shm", "internal/transport/frames"}},
	{"transports", []string{"internal/transport/*"}},
	{"table of transports", []string{"internal/transport"}},
	{"objects of verbs", []string{"internal/core"}},
	{"verbs", []string{"verbs"}},
	{"connection manager", []string{"rdmacm"}},
	{"streams", []string{"rsocket"}},
	{"C's work requests", []string{"cabi/layout"}},
	{"C ABI", []string{"cabi/*"}},
	{"common to tools", []string{"internal/tools/cli", "internal/tools/rawbench", "internal/tools/requests", "internal/tools/chart"}},
	{"tools", []string{"internal/tools/*"}},
	{"commands and examples", []string{"cmd/*", "cabi/*", "examples", "examples/*"}},
}

// testOnly are the packages that only tests may import. They may import
// anything but commands.
var testOnly = []string{"internal/testkit", "interop", "apps"}

// machines are the packages whose behaviour is a function of their inputs.
var machines = []string{"internal/fsm", "internal/rtt", "internal/congestion", "internal/qp", "internal/roce", "internal/iwarp", "internal/cm", "internal/wire/roce", "internal/wire/ether", "internal/steer", "internal/wire/cm", "internal/wire/iwarp", "internal/wire/trp", "internal/wire/ntb", "internal/wire/rsocket", "internal/ntb/channel", "internal/ntb/rdma", "internal/rstream", "ib"}

// layerOf returns the layer of a package; exact names come before stars.
func layerOf(dir string) (int, bool) {
	for i, l := range layers {
		if slices.Contains(l.packages, dir) {
			return i, true
		}
	}
	for i, l := range layers {
		for _, p := range l.packages {
			if ok, _ := path.Match(p, dir); ok {
				return i, true
			}
		}
	}
	return 0, false
}

func TestImportsPointDown(t *testing.T) {
	for dir, files := range packages(t) {
		if dir == "." || within(dir, testOnly...) {
			continue
		}
		mine, ok := layerOf(dir)
		if !ok {
			t.Errorf("package %s has no layer: add it to the table in layers_test.go, in the lowest layer above all that it imports", dir)
			continue
		}
		for _, s := range files {
			for _, imp := range s.imports {
				other, ok := local(imp)
				if !ok || within(other, testOnly...) {
					continue // the standard library, another module, or the next test's business
				}
				if theirs, ok := layerOf(other); ok && theirs >= mine {
					t.Errorf("%s: layer %q imports %s of layer %q: imports point down", s.path, layers[mine].what, other, layers[theirs].what)
				}
			}
		}
	}
}

func TestTestPackagesStayInTests(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			other, ok := local(imp)
			if !ok {
				continue
			}
			if within(other, testOnly...) && !s.isTest() && !within(s.dir, testOnly...) {
				t.Errorf("%s: imports %s, which is for tests only", s.path, other)
			}
			if within(other, "cmd") {
				t.Errorf("%s: imports the command %s", s.path, other)
			}
		}
	}
}

// A machine that could read a clock, draw a random number or be preempted at
// a lock would not replay from a seed.
func TestMachinesAreSansIO(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, machines...) {
			continue
		}
		for _, imp := range s.imports {
			first, _, _ := strings.Cut(imp, "/")
			switch {
			case imp == "net/netip": // values
			case imp == "time" && s.dir == "internal/wire/roce":
				durationsOnly(t, s)
			case slices.Contains([]string{"net", "os", "sync", "time", "unsafe", "syscall", "runtime", "context", "io", "log", "testing"}, first),
				strings.HasPrefix(imp, "math/rand"), imp == "crypto/rand":
				t.Errorf("%s: imports %s: protocol machines and wire formats are given the time and random numbers, and do no I/O", s.path, imp)
			case strings.Contains(first, "."):
				t.Errorf("%s: imports %s: protocol machines and wire formats use the standard library only", s.path, imp)
			}
		}
	}
}

// durationsOnly lets a wire format have durations, but no points in time.
func durationsOnly(t *testing.T, s *source) {
	for name, pos := range selections(s, "time") {
		if !slices.Contains([]string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second"}, name) {
			t.Errorf("%s: time.%s in a wire format: only durations are values", s.at(pos), name)
		}
	}
}

func TestOnlyTheEngineAsksTheTime(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, append([]string{"internal/mem", "internal/queue"}, machines...)...) {
			continue
		}
		for name, pos := range selections(s, module+"/internal/monotime") {
			if name == "Now" {
				t.Errorf("%s: monotime.Now: the time is passed in", s.at(pos))
			}
		}
	}
}

// Sockets must not know the meaning of a datagram.
func TestSocketsKnowNoProtocol(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, "internal/sys/udp", "internal/sys/portshare") {
			continue
		}
		for _, imp := range s.imports {
			if other, ok := local(imp); ok && within(other, "internal/roce", "internal/cm", "internal/wire", "internal/mem", "internal/queue") {
				t.Errorf("%s: imports %s: a socket does not know what a datagram means", s.path, other)
			}
		}
	}
}

// Users copy the examples, and cannot import internal packages. Only an example that is a module of
// its own imports other modules.
func TestExamplesUsePublicPackages(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, "examples") {
			continue
		}
		found = true
		_, isModule := all.text[path.Join(s.dir, "go.mod")]
		for _, imp := range s.imports {
			if other, ok := local(imp); (ok && !within(other, public...)) || (!ok && !isModule && strings.Contains(strings.Split(imp, "/")[0], ".")) {
				t.Errorf("%s: imports %s: an example uses the standard library and %s only", s.path, imp, strings.Join(public, ", "))
			}
		}
	}
	if !found {
		t.Error("there are no examples")
	}
}

// apiSystem are the packages of the system that the public packages and their objects may import,
// with the reason. Sockets are the engine's.
var apiSystem = map[string]string{
	"internal/sys/entropy":  "random keys, and the managers' random numbers",
	"internal/sys/faultcap": "options: what faults and captures are",
	"internal/sys/fdtrack":  "options: opens the capture file",
	"internal/sys/futex":    "rdmacm.Leave waits without the Go runtime's timers",
	"internal/sys/recorder": "options: the ring of packets",
}

func TestVerbsReachSocketsThroughTheEngine(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, "verbs", "rdmacm", "internal/core") {
			continue
		}
		for _, imp := range s.imports {
			other, ok := local(imp)
			if !ok || !within(other, "internal/sys", "internal/ntb/backend", "internal/ntb/channel", "internal/ntb/window") {
				continue
			}
			if used[other] = true; apiSystem[other] == "" {
				t.Errorf("%s: imports %s: verbs and rdmacm reach the system through internal/engine; else apiSystem gives the reason", s.path, other)
			}
		}
	}
	for other := range apiSystem {
		if !used[other] {
			t.Errorf("apiSystem names %s, which neither verbs nor rdmacm imports", other)
		}
	}
}

// The objects of verbs and the engine ask a device for its features, not for its kind.
func TestObjectsNameNoKind(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, "internal/core", "internal/engine", "verbs") {
			continue
		}
		for name, pos := range selections(s, module+"/internal/device") {
			if strings.HasPrefix(name, "Kind") && name != "Kind" && name != "Kinds" {
				t.Errorf("%s: names device.%s: a method of device.Kind, or an interface of the "+
					"transport, says what such a device has", s.at(pos), name)
			}
		}
		for n := range ast.Preorder(s.file) {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "IsIWARP" {
				t.Errorf("%s: asks for a kind", s.at(sel.Pos()))
			}
		}
	}
}

// The engine knows no transport: not its machines, nor its packets, nor its back ends.
func TestEngineKnowsNoTransport(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !within(s.dir, "internal/engine") {
			continue
		}
		for _, imp := range s.imports {
			if other, ok := local(imp); ok && within(other, "internal/roce", "internal/iwarp", "internal/ntb", "internal/cm", "internal/wire", "internal/transport", "internal/sys/portshare") {
				t.Errorf("%s: imports %s: the engine knows no transport", s.path, other)
			}
		}
	}
}
