package run

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestVariables(t *testing.T) {
	o := &options{faults: "loss=1%", capture: "/x/y.pcapng", noLocal: true, debug: true, devices: "iwarp,roce_lo"}
	before := environment{"HOME=/h", "LD_LIBRARY_PATH=/a:/p/lib/verbena::/b", "VERBENA_FAULTS=dup=1%"}
	after, err := o.variables(before, "/p/lib/verbena", "/run/root")
	if err != nil {
		t.Fatal(err)
	}
	want := environment{"HOME=/h", "LD_LIBRARY_PATH=/p/lib/verbena:/a:/b", "LD_PRELOAD=/p/lib/verbena/libverbena-preload.so",
		"VERBENA_ROOT=/run/root", "VERBENA_FAULTS=loss=1%", "VERBENA_PCAP=/x/y-%p.pcapng", "VERBENA_LOCAL=off", "VERBENA_DEBUG=1", "VERBENA_DEVICES=iwarp,roce_lo"}
	slices.Sort(after)
	slices.Sort(want)
	if !slices.Equal(after, want) {
		t.Errorf("got  %q\nwant %q", after, want)
	}
	if before[2] != "VERBENA_FAULTS=dup=1%" {
		t.Errorf("the caller's environment changed: %q", before)
	}
}

// A command inside another keeps what the outer one said.
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

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "say which program to run; see 'run --help'"},
		{[]string{"--faults", "loss=2", "true"}, "--faults: loss=2: must be a share from 0% to 100%, such as 1% or 0.01"},
		{[]string{"--device", "iwarp,ethernet", "true"}, `--device "ethernet": neither a kind, of [roce iwarp trp ntb], nor a device (no such device)`},
		{[]string{"--pcap", "/tmp/", "true"}, "--pcap: /tmp/ is a directory"},
		{[]string{"--nonsense", "true"}, "unknown flag: --nonsense"},
		{[]string{"verbena-no-such-program", "--nonsense"}, "there is no program verbena-no-such-program in $PATH"},
		{[]string{"--", "/nowhere/x"}, "cannot run /nowhere/x: no such file or directory"},
		{[]string{"/"}, "cannot run /: is a directory"},
	} {
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{}, c.args...))
		if err := cmd.Execute(); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
