// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"verbena/internal/sys/portshare"
	"verbena/internal/testkit/loopback"

	"verbena/internal/tools/cli"
)

// asCommand makes the test binary be the command.
const asCommand = "VERBENA_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	// A keeper is started without the environment.
	if os.Getenv(asCommand) != "" || len(os.Args) > 1 && os.Args[1] == portshare.KeeperCommand {
		main()
	}
	os.Exit(m.Run())
}

// command prepares a process of verbena that cannot outlive the test.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// run runs verbena to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// server is a process that waits for a client.
type server struct {
	cmd    *exec.Cmd
	output *bufio.Reader
	said   strings.Builder
}

// start runs verbena until it prints the line that says that it is ready; the test asks for debug
// output where needed.
func start(t *testing.T, ready string, args ...string) *server {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	s := &server{cmd: command(t, args...), output: bufio.NewReader(r)}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	for {
		line, err := s.output.ReadString('\n')
		s.said.WriteString(line)
		if strings.Contains(line, ready) {
			return s
		}
		if err != nil {
			t.Fatalf("the server ended early: %s", s.said.String())
		}
	}
}

// wait returns all the server said and its exit status.
func (s *server) wait(t *testing.T) (string, int) {
	t.Helper()
	rest, err := io.ReadAll(s.output)
	if err != nil {
		t.Fatal(err)
	}
	s.said.Write(rest)
	_ = s.cmd.Wait() // the status tells
	return s.said.String(), s.cmd.ProcessState.ExitCode()
}

func TestRpingBetweenTwoProcesses(t *testing.T) {
	loopback.Device(t)
	s := start(t, "rdma_listen on", "rping", "-s", "-a", "127.0.0.1", "-p", "7301", "-v", "-d")
	_, stderr, status := run(t, "rping", "-c", "-a", "127.0.0.1", "-p", "7301", "-C", "20", "-V")
	if status != cli.ExitOK {
		t.Errorf("client: status %d, %s", status, stderr)
	}
	said, status := s.wait(t)
	if status != cli.ExitOK || !strings.Contains(said, "server ping data: rdma-ping-19: ") || !strings.Contains(said, "server DISCONNECT EVENT...") {
		t.Errorf("server: status %d, said\n%s", status, said)
	}
}

func TestRpingThroughABadNetwork(t *testing.T) {
	loopback.Device(t)
	const faults = "loss=2%,dup=2%,reorder=2%,corrupt=1%,seed=7"
	s := start(t, "rdma_listen on", "rping", "-s", "-a", "127.0.0.1", "-p", "7302", "-d", "--faults", faults)
	_, stderr, status := run(t, "rping", "-c", "-a", "127.0.0.1", "-p", "7302", "-C", "50", "-V", "-S", "9000", "--faults", faults)
	if status != cli.ExitOK {
		t.Errorf("client: status %d, %s", status, stderr)
	}
	if said, status := s.wait(t); status != cli.ExitOK {
		t.Errorf("server: status %d, said\n%s", status, said)
	}
}

func TestCaptureCanBeDumped(t *testing.T) {
	dev := loopback.Device(t)
	capture := filepath.Join(t.TempDir(), "pingpong.pcapng")
	s := start(t, "local address", "pingpong", "rc", "-d", dev, "-p", "18600", "-n", "100", "-s", "1000")
	client(t, "rc", dev, "18600", "--pcap", capture)
	s.wait(t)
	out, stderr, status := run(t, "dump", capture)
	if status != cli.ExitOK || strings.Count(out, "RC Send Only") < 200 || strings.Contains(out, "Bad ICRC") {
		t.Errorf("dump: status %d, %s\n%s", status, stderr, out)
	}
}

// A capture says with its packets how the path changes. Wireshark shows it: frame.comment.
func TestCaptureTellsOfThePath(t *testing.T) {
	loopback.Device(t)
	dir := t.TempDir()
	for port, kind := range map[string]string{"7303": "roce", "7304": "iwarp", "7305": "trp"} {
		s := start(t, "rdma_listen on", "rping", "-s", "-a", "127.0.0.1", "-p", port, "-d", "--kind", kind)
		capture := filepath.Join(dir, kind)
		_, stderr, status := run(t, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "30", "--kind", kind, "--pcap", capture,
			"--faults", "delay=1ms")
		if status != cli.ExitOK {
			t.Errorf("%s: status %d, %s", kind, status, stderr)
		}
		s.wait(t)
		file, err := os.ReadFile(capture)
		if err != nil {
			t.Fatal(err)
		}
		comments := regexp.MustCompile(`rtt_ns=[1-9][0-9]* .*window_bytes=[1-9][0-9]* .*congestion_notifications=0`).FindAll(file, -1)
		if len(comments) < 2 || kind != "iwarp" && !bytes.Contains(file, []byte("qpn=0x")) {
			t.Errorf("%s: %d comments with a round trip and a window", kind, len(comments))
		}
	}
}

// client runs the other side of a pingpong server that prints its address just
// before it listens.
func client(t *testing.T, kind, dev, port string, more ...string) {
	t.Helper()
	args := append([]string{"pingpong", kind, "-d", dev, "-p", port, "-n", "100", "-s", "1000"}, append(more, "127.0.0.1")...)
	for {
		_, stderr, status := run(t, args...)
		if strings.Contains(stderr, "cannot reach") && t.Context().Err() == nil {
			continue
		}
		if status != cli.ExitOK {
			t.Errorf("%s client: status %d, %s", kind, status, stderr)
		}
		return
	}
}

func TestPingpongBetweenTwoProcesses(t *testing.T) {
	dev := loopback.Device(t)
	for port, kind := range map[string]string{"18601": "rc", "18602": "uc", "18603": "ud", "18604": "srq"} {
		s := start(t, "local address", "pingpong", kind, "-d", dev, "-p", port, "-n", "100", "-s", "1000")
		client(t, kind, dev, port)
		if said, status := s.wait(t); status != cli.ExitOK {
			t.Errorf("%s server: status %d, said\n%s", kind, status, said)
		}
	}
}

func TestStatSeesARunningProcess(t *testing.T) {
	dev := loopback.Device(t)
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	s := start(t, "local address", "pingpong", "rc", "-d", dev, "-p", "18605")
	out, stderr, status := run(t, "stat", "-a")
	if status != cli.ExitOK || !strings.Contains(out, dev+" (") || !strings.Contains(out, fmt.Sprintf("process %d", s.cmd.Process.Pid)) {
		t.Errorf("stat: status %d, %s\n%s", status, stderr, out)
	}
	if runtime.GOOS == "windows" {
		s.cmd.Process.Kill()
		s.wait(t)
		return
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if said, status := s.wait(t); status != cli.ExitInterrupted || strings.Contains(said, "verbena:") {
		t.Errorf("after an interrupt: status %d, said\n%s", status, said)
	}
	if out, _, _ := run(t, "stat"); !strings.Contains(out, "no process has a device open") {
		t.Errorf("stat after the end:\n%s", out)
	}
}

func TestDevinfoShowsLoopback(t *testing.T) {
	dev := loopback.Device(t)
	out, stderr, status := run(t, "devinfo", "-v", "-d", dev)
	for _, want := range []string{"hca_id:\t" + dev + "\n", "PORT_ACTIVE (4)", "::ffff:127.0.0.1, RoCE v2"} {
		if status != cli.ExitOK || !strings.Contains(out, want) {
			t.Errorf("status %d, %s, no %q in\n%s", status, stderr, want, out)
		}
	}
	if out, _, status := run(t, "devices", "--json"); status != cli.ExitOK || !strings.Contains(out, `{"name":"`+dev+`","kind":"roce"`) {
		t.Errorf("devices --json: status %d\n%s", status, out)
	}
	if out, _, status := run(t, "devices"); status != cli.ExitOK || !strings.Contains(out, "    "+dev) {
		t.Errorf("devices: status %d\n%s", status, out)
	}
}

func TestVersionIsToldEverywhere(t *testing.T) {
	dev := loopback.Device(t)
	out, _, status := run(t, "--version")
	version, ok := strings.CutPrefix(strings.TrimSpace(out), "verbena ")
	if status != cli.ExitOK || !ok || version == "" {
		t.Fatalf("--version: status %d, %q", status, out)
	}
	for _, line := range []string{"devinfo -d " + dev, "devinfo -d " + dev + " --json"} {
		if out, _, _ := run(t, strings.Fields(line)...); !strings.Contains(out, version) {
			t.Errorf("%s does not say %s:\n%s", line, version, out)
		}
	}
	s := start(t, "local address", "pingpong", "rc", "-d", dev, "-p", "18608")
	for _, line := range []string{"stat", "stat --json"} {
		if out, _, _ := run(t, strings.Fields(line)...); !strings.Contains(out, version) {
			t.Errorf("%s does not say %s:\n%s", line, version, out)
		}
	}
	s.cmd.Process.Kill()
	s.wait(t)
}

func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	dev := loopback.Device(t)
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"pingpong", cli.ExitUsage, "verbena: say rc, srq, uc or ud; see"},
		{"perf write", cli.ExitUsage, "verbena: say bw or lat; see"},
		{"stat -d roce_none", cli.ExitFailure, "no device named roce_none; there are"},
		{"rping -s --kind foo", cli.ExitUsage, "--kind foo: there are roce, "},
		{"run nosuch", cli.ExitNoProgram, "there is no program nosuch in $PATH"},
		{"run ./nosuch", cli.ExitNoProgram, "cannot run ./nosuch"},
		{"run ./main_test.go", cli.ExitCannotRun, "cannot run ./main_test.go: permission denied"},
		{"run /", cli.ExitCannotRun, "cannot run /"},
		{"perf write lat -a -s 4", cli.ExitUsage, "--all and --size exclude each other"},
		{"pinpong", cli.ExitUsage, "unknown command"},
		{"pingpong xrc", cli.ExitUsage, "there are rc, srq, uc, ud"},
		{"perf write speed", cli.ExitUsage, "there are bw, lat"},
		{"pingpong rc --bogus", cli.ExitUsage, "see 'verbena pingpong rc --help'"},
		{"devinfo -d roce_none", cli.ExitFailure, "no device named roce_none; there are"},
		{"devinfo -i 9 -d " + dev, cli.ExitFailure, "has no port 9"},
		{"pingpong rc -d " + dev + " -p 18606 127.0.0.1", cli.ExitFailure, "start 'verbena pingpong rc' there first"},
		{"pingpong rc -g 99 -d " + dev, cli.ExitFailure, "has no GID at index 99"},
		{"perf write bw -d " + dev + " -p 18607 127.0.0.1", cli.ExitFailure, "start 'verbena perf write bw' there first"},
		{"perf write bw -d " + dev + " --faults loss=lots 127.0.0.1", cli.ExitUsage, "verbena: --faults: loss=lots: must be a share"},
		{"rping -s --faults loss=200%", cli.ExitUsage, "verbena: --faults: loss=200%: must be a share"},
		{"pingpong rc --faults bogus=1", cli.ExitUsage, "verbena: --faults: unknown key"},
		{"perf write bw -d " + dev + " --pcap /nowhere/x.pcapng 127.0.0.1", cli.ExitFailure, "/nowhere/x.pcapng"},
		{"rping -c -a 127.0.0.1 -p 7303 -C 1", cli.ExitFailure, "start 'verbena rping -s' there first"},
		{"rping", cli.ExitUsage, "-s for the server"},
		{"dump", cli.ExitUsage, "at least one FILE"},
		{"dump /nowhere/x.pcap", cli.ExitFailure, "/nowhere/x.pcap"},
	} {
		_, stderr, status := run(t, strings.Fields(c.line)...)
		if status != c.status || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
		if lines := strings.Count(stderr, "\n"); c.want != "" && lines != 1 || strings.Contains(stderr, "Usage:") {
			t.Errorf("%s: not one line:\n%s", c.line, stderr)
		}
	}
}

func TestLinkToNowhereIsRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("links in shared memory are Linux's")
	}
	t.Setenv("VERBENA_NTB", "shm:/nonexistent/x")
	for _, line := range []string{"devices", "devinfo -d ntb0", "run --device ntb true", "pingpong rc -d ntb0"} {
		_, stderr, status := run(t, strings.Fields(line)...)
		if status == cli.ExitOK || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "VERBENA_NTB") || !strings.Contains(stderr, "parent directory /nonexistent does not exist: make it") {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
	}
}

// The answers to a shell whose user asks how a line may go on.
func TestCompletion(t *testing.T) {
	dev := loopback.Device(t)
	path := t.TempDir()
	for name, mode := range map[string]os.FileMode{"ib_one": 0o755, "ib_two": 0o755, "ib_text": 0o644, "other": 0o755} {
		if err := os.WriteFile(filepath.Join(path, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	for _, c := range []struct {
		args []string
		want []string // lines that must be there
		not  string   // and must not match
	}{
		{[]string{"dev"}, []string{"devices\t", "devinfo\t"}, "dump"},
		{[]string{"run", "ib_"}, []string{"ib_one\nib_two\n"}, "text"},
		{[]string{"run", "--faults", "loss=1%", "o"}, []string{"other\n"}, "ib_"},
		{[]string{"run", "ib_one", "o"}, nil, "other"},
		{[]string{"run", "--device", ""}, []string{"iwarp\n", "\n" + dev + "\n"}, "ib_"},
		{[]string{"run", "--device", "trp,r"}, []string{"trp,roce\n", "trp," + dev + "\n"}, "ib_"},
		{[]string{"devinfo", "-d", ""}, []string{dev + "\n"}, "ib_"},
		{[]string{"perf", "send", "lat", "--ib-dev", ""}, []string{dev + "\n"}, "ib_"},
	} {
		out, stderr, status := run(t, append([]string{"__complete"}, c.args...)...)
		for _, want := range c.want {
			if status != cli.ExitOK || !strings.Contains("\n"+out, want) {
				t.Errorf("%q: status %d, %s, no %q in\n%s", c.args, status, stderr, want, out)
			}
		}
		if strings.Contains(out, c.not) {
			t.Errorf("%q: %q in\n%s", c.args, c.not, out)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range root().Commands() {
		if c.Short == "" || c.Long == "" && len(c.Commands()) == 0 {
			t.Errorf("%s has no help", c.CommandPath())
		}
	}
	out, _, status := run(t, "perf", "write", "bw", "--help")
	if status != cli.ExitOK || !strings.Contains(out, "--tx-depth N") {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestManualPageHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../packaging/verbena.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range root().Commands() {
		if !bytes.Contains(page, []byte("\n.It Cm "+c.Name()+"\n")) {
			t.Errorf("packaging/verbena.1 has no %q", c.Name())
		}
		if c.Name() != "run" {
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !bytes.Contains(page, []byte("\n.It Fl \\-"+f.Name)) {
				t.Errorf("packaging/verbena.1 has no --%s", f.Name)
			}
		})
	}
}
