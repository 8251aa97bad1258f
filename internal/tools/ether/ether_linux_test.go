// SPDX-License-Identifier: BSD-2-Clause

package ether

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/freeport"
	"verbena/internal/tools/cli"
)

// commandVar has this program be "verbena ether" with the arguments it holds.
const commandVar = "VERBENA_ETHER_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(commandVar); ok {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		cmd := Command()
		cmd.SetArgs(strings.Fields(args))
		status := cli.Execute(ctx, cmd, os.Stderr)
		stop()
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// station is a running command in a network namespace of its own.
type station struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func command(args, links string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), commandVar+"="+args, "VERBENA_NTB="+links)
	return cmd
}

func startStation(t *testing.T, args, links string) *station {
	t.Helper()
	cmd := command(args, links)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		t.Skipf("network namespaces and interfaces need root: run as root: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	s := &station{t: t, cmd: cmd, lines: make(chan string, 100)}
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return s
}

// expect waits for a line that has a word in it.
func (s *station) expect(word string) string {
	s.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("ended without saying %q", word)
			}
			if strings.Contains(line, word) {
				return line
			}
		case <-limit:
			s.t.Fatalf("did not say %q", word)
		}
	}
}

// end interrupts the command and returns its last line.
func (s *station) end() string {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	line := s.expect("received")
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("an interrupted command: %v", err)
	}
	return line
}

// run runs a program in the station's namespace.
func (s *station) run(program string, args ...string) []byte {
	s.t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		s.t.Fatalf("%v: make unit installs it", err)
	}
	args = append([]string{"-t", strconv.Itoa(s.cmd.Process.Pid), "-n", program}, args...)
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return out
}

// ping has n pings answered. On a busy machine some may come late; none is lost,
// as the counters say.
func (s *station) ping(n, size int, addr string) {
	s.t.Helper()
	s.run("ping", "-c", strconv.Itoa(n), "-w", "30", "-i", "0.01", "-s", strconv.Itoa(size), addr)
}

// stations are two with the addresses 10.99.1.1 and 10.99.1.2, and a link that is up.
func stations(t *testing.T, links, otherLinks, args string) (a, b *station) {
	t.Helper()
	a = startStation(t, "--address 10.99.1.1/24 --tap left "+args, links)
	b = startStation(t, "--address 10.99.1.2/24 "+args, otherLinks)
	if strings.HasPrefix(otherLinks, "c:") {
		wire(t, a, b)
	}
	a.expect("left: the link is up")
	b.expect("ntb0: the link is up")
	return a, b
}

// wire joins the namespaces by an Ethernet, with the addresses 10.98.1.1 and 10.98.1.2.
func wire(t *testing.T, a, b *station) {
	t.Helper()
	out, err := exec.Command("ip", "link", "add", "wire", "netns", strconv.Itoa(a.cmd.Process.Pid), "type", "veth", "peer", "name", "wire", "netns", strconv.Itoa(b.cmd.Process.Pid)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, s := range []*station{a, b} {
		s.run("ip", "addr", "add", fmt.Sprintf("10.98.1.%d/24", i+1), "dev", "wire")
		s.run("ip", "link", "set", "wire", "up")
	}
}

// TestPing pings with all sizes that IPv4 has, over the longest packets that the
// link takes and over those of Ethernet.
func TestPing(t *testing.T) {
	for _, c := range []struct{ kind, args string }{{"shm", ""}, {"shm", "--mtu 1500"}, {"tcp", ""}} {
		t.Run(c.kind+" "+c.args, func(t *testing.T) {
			links := "shm:" + filepath.Join(t.TempDir(), "link")
			others := links
			if c.kind == "tcp" {
				links, others = "s:0.0.0.0:7471", "c:10.98.1.1:7471"
			}
			a, b := stations(t, links, others, c.args)
			for _, size := range []int{0, 56, 1472, 1473, 9000, 65400, 65507} {
				a.ping(5, size, "10.99.1.2")
			}
			for _, s := range []*station{a, b} {
				var name string
				var sent, sentBytes, received, receivedBytes, noRoom, refused uint64
				line := s.end()
				n, err := fmt.Sscanf(line, "%s sent %d frames, %d bytes; received %d frames, %d bytes; dropped %d for which the peer had no room, %d that",
					&name, &sent, &sentBytes, &received, &receivedBytes, &noRoom, &refused)
				if n != 7 || sent < 35 || received < 35 || sentBytes < 5*(9000+65400+65507) || receivedBytes < 5*(9000+65400+65507) || noRoom+refused > 0 {
					t.Errorf("%v: %s", err, line)
				}
			}
		})
	}
}

// TestIperf3 has TCP run both ways, over a link of two processes, and over a file, which wakes
// nobody. It also runs over a link that goes through another network by TCP.
func TestIperf3(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, links := range [][2]string{{"shm:s:" + dir + "/link", "shm:c:" + dir + "/link"}, {"map:0:" + file, "map:1:" + file}, {"s:0.0.0.0:7471", "c:10.98.1.1:7471"}} {
		kind, _, _ := strings.Cut(links[0], ":")
		if kind == "s" {
			kind = "tcp"
		}
		t.Run(kind, func(t *testing.T) {
			a, b := stations(t, links[0], links[1], "")
			for _, direction := range []string{"--client=10.99.1.2", "--client=10.99.1.2 --reverse"} {
				served := make(chan struct{})
				go func() {
					defer close(served)
					exec.CommandContext(t.Context(), "nsenter", "-t", strconv.Itoa(b.cmd.Process.Pid), "-n", "iperf3", "--server", "--one-off").Run()
				}()
				for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					if freeport.ListensAt(b.cmd.Process.Pid, 5201) {
						break
					}
					if time.Now().After(until) {
						t.Fatal("iperf3's server does not listen")
					}
				}
				out := a.run("iperf3", append(strings.Fields(direction), "--time=1", "--json")...)
				var r struct {
					End struct {
						Received struct {
							Bytes         uint64  `json:"bytes"`
							BitsPerSecond float64 `json:"bits_per_second"`
						} `json:"sum_received"`
					} `json:"end"`
				}
				if err := json.Unmarshal(out, &r); err != nil || r.End.Received.Bytes < 1<<20 {
					t.Fatalf("%s: %v\n%s", direction, err, out) // its exit status is 0 all the same
				}
				<-served
				t.Logf("iperf3 %s: %.2f Gbit/s", direction, r.End.Received.BitsPerSecond/1e9)
			}
			t.Log(a.end())
			t.Log(b.end())
		})
	}
}

// TestCarrier has the interface follow the link when the other end goes and comes.
func TestCarrier(t *testing.T) {
	links := "shm:" + filepath.Join(t.TempDir(), "link")
	a, b := stations(t, links, links, "")
	b.end()
	a.expect("left: the link is down")
	if out := string(a.run("ip", "link", "show", "left")); !strings.Contains(out, "NO-CARRIER") {
		t.Errorf("without a peer: %s", out)
	}
	startStation(t, "--address 10.99.1.2/24", links)
	a.expect("left: the link is up")
	a.ping(1, 56, "10.99.1.2")
}

// TestOneProcessASide has a third process told why it carries nothing.
func TestOneProcessASide(t *testing.T) {
	links := "shm:" + filepath.Join(t.TempDir(), "link")
	a, b := stations(t, links, links, "")
	var out []byte
	var err error
	// Each namespace has a keeper of its own. One process in 15 gets the number of another there.
	for range 10 {
		cmd := command("", links)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if out, err = cmd.CombinedOutput(); !strings.Contains(string(out), "two processes have one number") {
			break
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "another process carries the frames of this side of ntb0") {
		t.Errorf("%v: %s", err, out)
	}
	a.ping(1, 56, "10.99.1.2")
	a.end()
	b.end()
}

// TestRefusals: a refusal names the error and the remedy.
func TestRefusals(t *testing.T) {
	links := "shm:" + filepath.Join(t.TempDir(), "link")
	for _, c := range []struct {
		args, links string
		status      int
		want        string
	}{
		{"", "", 1, "there is no device of kind ntb: set VERBENA_NTB"},
		{"-d roce_lo", links, 1, "only NTB links carry frames"},
		{"--address 10.0.0.1", links, 2, "--address 10.0.0.1 is not ADDR/BITS"},
		{"--mtu 70000", links, 2, "--mtu 70000 is not from 68 to 65521"},
		{"--tap a-name-of-16-bytes", links, 1, "has at most 15 bytes"},
		{"", links, 1, "needs CAP_NET_ADMIN"},
	} {
		cmd := command(c.args, c.links)
		if os.Getuid() == 0 { // of root nothing but the name
			path, err := exec.LookPath("setpriv")
			if err != nil {
				t.Fatal(err)
			}
			cmd.Args = []string{path, "--bounding-set=-all", "--inh-caps=-all", cmd.Path}
			cmd.Path = path
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.status || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v: %s, want status %d and %q", c.args, err, out, c.status, c.want)
		}
	}
}

// TestInterfaceOfRoot takes an interface that was made for this user, without any
// capability.
func TestInterfaceOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make the interface: run as root")
	}
	links := "shm:" + filepath.Join(t.TempDir(), "link")
	cmd := command("--tap storage0", links)
	script := "ip tuntap add storage0 mode tap user 0 && exec setpriv --bounding-set=-all --inh-caps=-all " + cmd.Path
	cmd = exec.CommandContext(t.Context(), "timeout", "--signal=TERM", "--preserve-status", "1", "unshare", "--net", "sh", "-c", script)
	cmd.Env = command("--tap storage0", links).Env
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "storage0: on ntb0") {
		t.Errorf("%v: %s", err, out)
	}
}
