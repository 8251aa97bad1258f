// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"io"
	"strings"
	"testing"

	"verbena/internal/tools/cli"
)

// parse runs the command line up to validation.
func parse(t *testing.T, line string) (*options, error) {
	t.Helper()
	args := strings.Fields(line)
	for _, k := range kinds {
		if k.name != args[0] {
			continue
		}
		o := &options{kind: k}
		cmd := subcommand(k)
		cmd.ResetFlags()
		o.flags(cmd.Flags())
		if err := cmd.ParseFlags(args[1:]); err != nil {
			return nil, err
		}
		return o, o.validate()
	}
	t.Fatalf("no kind %q", args[0])
	return nil, nil
}

func TestOptionsAreThoseOfRdmaCore(t *testing.T) {
	o, err := parse(t, "srq -p 0x4853 -d roce_lo -i 1 -s 64 -m 256 -q 4 -r 100 -n 10 -l 3 -e -g 2 -c")
	if err != nil {
		t.Fatal(err)
	}
	if o.tcpPort != 18515 || o.dev.Name != "roce_lo" || o.size != 64 || o.mtu.Bytes() != 256 || o.qps != 4 || o.rxDepth != 100 ||
		o.iters != 10 || o.sl != 3 || !o.events || o.gidIndex != 2 || !o.check {
		t.Errorf("options %+v", o)
	}
	o, err = parse(t, "ud")
	if err != nil || o.size != 1024 || o.tcpPort != 18515 || o.rxDepth != 500 || o.iters != 1000 || o.gidIndex != cli.AnyGID {
		t.Errorf("defaults %+v, %v", o, err)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"rc -p 0":          "--port 0",
		"rc -p 65536":      "--port 65536",
		"rc -i 0":          "--ib-port 0",
		"rc -s 0":          "--size 0",
		"rc -m 1000":       "path MTU 1000",
		"ud -m 1024":       "unknown shorthand flag",
		"rc -q 2":          "unknown shorthand flag",
		"rc -r 0":          "--rx-depth 0",
		"rc -n 0":          "--iters 0",
		"rc -l 16":         "--sl 16",
		"rc -g 256":        "--gid-idx 256",
		"srq -q 0":         "--num-qp 0",
		"srq -q 256":       "--num-qp 256",
		"srq -q 16 -r 10":  "--rx-depth 10",
		"rc -n many":       "invalid argument",
		"rc --no-such-one": "unknown flag",
	} {
		_, err := parse(t, line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", line, err, want)
		}
	}
}

func TestTwoHostsAreTooMany(t *testing.T) {
	cmd := Command()
	cmd.SetArgs([]string{"rc", "a", "b"})
	cmd.SetOut(io.Discard)
	if status := cli.Execute(t.Context(), cmd, io.Discard); status != cli.ExitUsage {
		t.Errorf("exit status %d", status)
	}
}
