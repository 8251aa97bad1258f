// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"verbena/internal/device"
)

func TestVariables(t *testing.T) {
	o := &options{faults: "loss=1%", capture: "/x/y.pcapng", noLocal: true, debug: true, log: "info", devices: "iwarp,roce_lo"}
	before := environment{"HOME=/h", "LD_LIBRARY_PATH=/a:/p/lib/verbena::/b", "VERBENA_FAULTS=dup=1%"}
	after, err := o.variables(before, "/p/lib/verbena", "/run/root")
	if err != nil {
		t.Fatal(err)
	}
	want := environment{"HOME=/h", "LD_LIBRARY_PATH=/p/lib/verbena:/a:/b", "LD_PRELOAD=/p/lib/verbena/libverbena-preload.so",
		"VERBENA_ROOT=/run/root", "VERBENA_FAULTS=loss=1%", "VERBENA_PCAP=/x/y-%p.pcapng", "VERBENA_LOCAL=off", "VERBENA_DEBUG=1", "VERBENA_LOG=info", "VERBENA_DEVICES=iwarp,roce_lo",
		"VALGRIND_OPTS=--suppressions=/p/lib/verbena/verbena.supp", "TSAN_OPTIONS=die_after_fork=0"}
	slices.Sort(after)
	slices.Sort(want)
	if !slices.Equal(after, want) {
		t.Errorf("got  %q\nwant %q", after, want)
	}
	if before[2] != "VERBENA_FAULTS=dup=1%" {
		t.Errorf("the caller's environment changed: %q", before)
	}
}

// The user's options for valgrind and sanitizers come after ours, which are given once.
func TestOptionsOfToolsStay(t *testing.T) {
	after := environment{"VALGRIND_OPTS=-q --leak-check=full", "TSAN_OPTIONS=die_after_fork=1"}
	for range 2 {
		var err error
		if after, err = (&options{}).variables(after, "/p", "/r"); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"VALGRIND_OPTS": "--suppressions=/p/verbena.supp -q --leak-check=full",
		"TSAN_OPTIONS":  "die_after_fork=0:die_after_fork=1",
	} {
		if got := after.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Go's runtime is told of a missing RDTSCP, once and before what the user says of GODEBUG.
func TestWithoutRDTSCP(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("RDTSCP is an instruction of amd64")
	}
	const lacks, has = "processor\t: 0\nflags\t\t: fpu tsc lm\n", "processor\t: 0\nflags\t\t: fpu rdtscp lm\n"
	before := environment{"GODEBUG=gctrace=1"}
	for cpuinfo, want := range map[string]string{lacks: "cpu.rdtscp=off,gctrace=1", has: "gctrace=1", "": "gctrace=1"} {
		after := slices.Clone(before).withoutRDTSCP(cpuinfo).withoutRDTSCP(cpuinfo)
		if got := after.get("GODEBUG"); got != want {
			t.Errorf("with /proc/cpuinfo %q GODEBUG is %q, want %q", cpuinfo, got, want)
		}
	}
}

// A command inside another keeps the outer one's settings.
func TestVariablesOfOptionsNotGivenStay(t *testing.T) {
	after, err := (&options{}).variables(environment{"VERBENA_FAULTS=dup=1%", "VERBENA_PCAP=/x-%p", "LD_PRELOAD=/other.so"}, "/p", "/r")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"VERBENA_FAULTS": "dup=1%", "VERBENA_PCAP": "/x-%p", "VERBENA_DEBUG": "", "LD_PRELOAD": "/p/libverbena-preload.so:/other.so"} {
		if got := after.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestCaptureIsNamedByProcess(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"x.pcapng":       here + "/x-%p.pcapng",
		"x":              here + "/x-%p",
		"/d.e/x":         "/d.e/x-%p",
		"/d/%p.pcapng":   "/d/%p.pcapng",
		"/d%p/y.pcapng":  "/d%p/y.pcapng",
		"../a.b.pcapng ": filepath.Dir(here) + "/a.b-%p.pcapng ",
	} {
		if got, err := perProcess(file); err != nil || got != want {
			t.Errorf("%q becomes %q (%v), want %q", file, got, err, want)
		}
	}
}

// A ring has the name of --pcap, or one in this directory. A capture of all packets ends the ring
// of a command around it.
func TestRingVariables(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		o          options
		ring, file string
	}{
		{options{ring: "64M"}, "64M", filepath.Join(dir, "verbena-%p.pcapng")},
		{options{ring: "64M", capture: "/x/y.pcapng"}, "64M", "/x/y-%p.pcapng"},
		{options{capture: "/x/y.pcapng"}, "", "/x/y-%p.pcapng"},
		{options{}, "1M", "/z"},
	} {
		after, err := c.o.variables(environment{"VERBENA_PCAP_RING=1M", "VERBENA_PCAP=/z"}, "/p", "/r")
		if err != nil {
			t.Fatal(err)
		}
		if ring, file := after.get("VERBENA_PCAP_RING"), after.get("VERBENA_PCAP"); ring != c.ring || file != c.file {
			t.Errorf("%+v: %q, %q", c.o, ring, file)
		}
	}
}

// --pcap-calls needs a capture, of this command or of one around it.
func TestCallsNeedACapture(t *testing.T) {
	for _, c := range []struct {
		o   options
		env environment
		ok  bool
	}{
		{options{calls: true}, nil, false},
		{options{calls: true, capture: "x.pcapng"}, nil, true},
		{options{calls: true, ring: "1M"}, nil, true},
		{options{calls: true}, environment{"VERBENA_PCAP=/z"}, true},
		{options{calls: true}, environment{"VERBENA_PCAP_RING=1M"}, true},
	} {
		if err := c.o.check(c.env); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "--pcap-calls: there is no capture") {
			t.Errorf("%+v in %q: %v", c.o, c.env, err)
		}
		after, err := c.o.variables(c.env, "/p", "/r")
		if err != nil || after.get("VERBENA_PCAP_CALLS") != "1" {
			t.Errorf("%+v: %q, %v", c.o, after, err)
		}
	}
}

// A link has no packets for --pcap and --faults.
func TestLinkHasNoPackets(t *testing.T) {
	if err := device.ConfigureLinks("shm:" + t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.ConfigureLinks("") })
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{devices: "ntb", capture: "x.pcapng"}, "--pcap: an NTB link has no packets to capture"},
		{options{devices: "ntb", ring: "1M"}, "--pcap-ring: an NTB link has no packets to capture"},
		{options{devices: "ntb", faults: "loss=1%"}, "--faults: an NTB link has no packets to inject faults into"},
		{options{devices: "ntb,roce", capture: "x.pcapng", faults: "loss=1%"}, ""}, // RoCE's have
	} {
		if err := c.o.check(nil); c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

// The refusal of a wrong call names the option, or the variable in its place, and the accepted
// values.
func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "verbena-program-here", "")
	t.Setenv(device.LinksVariable, "")
	for _, c := range []struct {
		args []string
		env  string
		want string // ends with … where the machine's devices follow
	}{
		{nil, "", "name the program to run; see 'run --help'"},
		{[]string{"--faults", "loss=2", "true"}, "", "--faults: loss=2: must be a share from 0% to 100%, such as 1% or 0.01"},
		{[]string{"true"}, "VERBENA_FAULTS=loss=2", "VERBENA_FAULTS: faults: loss=2: must be a share from 0% to 100%, such as 1% or 0.01"},
		{[]string{"true"}, "VERBENA_CONGESTION=cubic", "VERBENA_CONGESTION: cubic: no such congestion control; use delivery-rate or dcqcn"},
		{[]string{"--log", "loud", "true"}, "", `--log: "loud": must be debug, info or warn`},
		{[]string{"--log", "error", "true"}, "", `--log: "error": must be debug, info or warn`},
		{[]string{"--log", "warn+2", "true"}, "", `--log: "warn+2": must be debug, info or warn`},
		{[]string{"--pcap-ring", "64", "true"}, "", `--pcap-ring: "64": must be a size from 1M to 1G, such as 64M`},
		{[]string{"true"}, "VERBENA_PCAP_RING=lots", `VERBENA_PCAP_RING: "lots": must be a size from 1M to 1G, such as 64M`},
		{[]string{"true"}, "VERBENA_LOG=loud", `VERBENA_LOG: "loud": must be debug, info or warn`},
		{[]string{"--device", "iwarp", "--faults", "loss=1%", "true"}, "", "--faults: loss=1% is not available over TCP, which repairs it: use corrupt, delay, jitter and cut, or tc-netem(8)"},
		{[]string{"true"}, "VERBENA_FAULTS=cut=1%", "VERBENA_FAULTS: faults: cut=1% is available over TCP only: it resets a stream"},
		{[]string{"--device", "iwarp,ethernet", "true"}, "", `--device "ethernet": neither a kind, of [roce iwarp trp ntb], nor a device; there are …`},
		{[]string{"true"}, "VERBENA_DEVICES=ethernet", `VERBENA_DEVICES: device "ethernet": neither a kind, of [roce iwarp trp ntb], nor a device; there are …`},
		{[]string{"--device", "ntb", "true"}, "", "--device ntb: VERBENA_NTB names no link; see 'verbena devices --help'"},
		{[]string{"true"}, "VERBENA_DEVICES=roce,ntb", "VERBENA_DEVICES: device ntb: VERBENA_NTB names no link; see 'verbena devices --help'"},
		{[]string{"--pcap", "/tmp/", "true"}, "", "--pcap: /tmp/ is a directory"},
		{[]string{"--pcap", "/nowhere/x.pcapng", "true"}, "", "--pcap: cannot write in the directory /nowhere: no such file or directory"},
		{[]string{"--pcap", "verbena-program-here/x.pcapng", "true"}, "", "--pcap: cannot write in the directory verbena-program-here: not a directory"},
		{[]string{"--nonsense", "true"}, "", "unknown flag: --nonsense"},
		{[]string{"verbena-no-such-program", "--nonsense"}, "", "there is no program verbena-no-such-program in $PATH"},
		{[]string{"verbena-program-here"}, "", "there is no program verbena-program-here in $PATH; write ./verbena-program-here for the one in this directory"},
		{[]string{"--", "/nowhere/x"}, "", "cannot run /nowhere/x: no such file or directory"},
		{[]string{"/"}, "", "cannot run /: is a directory"},
	} {
		t.Run("", func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			cmd := Command()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{}, c.args...))
			want, open := strings.CutSuffix(c.want, "…")
			if err := cmd.Execute(); err == nil || open && !strings.HasPrefix(err.Error(), want) || !open && err.Error() != want {
				t.Errorf("%s %q: %v, want %q", c.env, c.args, err, c.want)
			}
		})
	}
}
