// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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

	"verbena/internal/simnet"
	"verbena/internal/tools/cli"
)

// burstVar has this program be the one that runs on a live network: it sends a burst.
const burstVar = "VERBENA_SIM_BURST"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(burstVar); ok && len(os.Args) == 1 {
		if err := sendBurst(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "sim" { // as --live starts it
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		cmd := Command()
		cmd.SetArgs(os.Args[2:])
		status := cli.Execute(ctx, cmd, os.Stderr)
		stop()
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// burst is datagrams that host a sends to host b as fast as it can, but for the window.
type burst struct {
	Network string // udp4, udp6
	Count   int
	ECN     int
	Result  string // file
}

// observed has host b's counts of a burst.
type observed struct {
	Received, Marked, Reordered int
	Early                       []string // arrivals before the link can have them
}

// The link of all bursts, without what a test adds.
const (
	testRate  = 100_000_000
	testDelay = 5 * time.Millisecond
	testBytes = 1000 // of payload
	// on the line, with the headers of IPv4 at least
	testLine = testBytes + 8 + 20 + ethernetHeader + frameOverhead
)

// window bounds the datagrams under way. The receiver's socket has memory for so many, by Linux's
// default for users. The link's buffers of these tests fill.
const window = 128

// sendBurst runs on the network.
func sendBurst(text string) error {
	var b burst
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	from, err := socketOn("a", &b)
	if err != nil {
		return err
	}
	to, err := socketOn("b", &b)
	if err != nil {
		return err
	}
	got, sent := make(chan observed), make(chan struct{})
	credits := make(chan struct{}, window+b.Count)
	for range window {
		credits <- struct{}{}
	}
	began := time.Now()
	go func() { got <- receiveBurst(to, credits, sent, began) }()
	addr := netip.MustParseAddrPort(map[string]string{"udp4": "10.0.0.2:7", "udp6": "[fd00::2]:7"}[b.Network])
	payload := make([]byte, testBytes)
	for i := range b.Count {
		<-credits
		binary.BigEndian.PutUint32(payload, uint32(i))
		if _, err := from.WriteToUDPAddrPort(payload, addr); err != nil {
			return err
		}
	}
	close(sent)
	for { // the end comes behind all, and may be lost
		select {
		case o := <-got:
			out, err := json.Marshal(o)
			if err != nil {
				return err
			}
			return os.WriteFile(b.Result, out, 0o600)
		case <-time.After(testDelay):
			if _, err := from.WriteToUDPAddrPort([]byte("end"), addr); err != nil {
				return err
			}
		}
	}
}

// socketOn makes a socket on a host.
func socketOn(host string, b *burst) (c *net.UDPConn, err error) {
	return c, onThread(func() error {
		ns, err := os.Open(filepath.Join(namesDir, host))
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		c, err = net.ListenUDP(b.Network, &net.UDPAddr{Port: 7})
		if err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		control := func(f uintptr) {
			fd := int(f)
			const memory = 64 << 20 // Linux makes it the most that it allows
			if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, memory); err != nil {
				return
			}
			if b.Network == "udp4" {
				err = firstOf(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, b.ECN),
					unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1))
			} else {
				err = firstOf(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, b.ECN),
					unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1))
			}
		}
		return firstOf(raw.Control(control), err)
	})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// receiveBurst receives until the end, which counts once all is sent. It gives a credit for each
// datagram that came, and for those lost before it.
func receiveBurst(c *net.UDPConn, credits, sent chan struct{}, began time.Time) (o observed) {
	defer close(credits)
	next := 0
	payload, control := make([]byte, 2*testBytes), make([]byte, 64)
	for {
		n, cn, _, _, err := c.ReadMsgUDPAddrPort(payload, control)
		at := time.Since(began)
		if err != nil {
			o.Early = append(o.Early, err.Error())
			return o
		}
		if n < testBytes {
			<-sent
			return o
		}
		i := int(binary.BigEndian.Uint32(payload))
		if i < next {
			o.Reordered++
		}
		for ; next <= i; next++ {
			credits <- struct{}{}
		}
		o.Received++
		if list, err := unix.ParseSocketControlMessage(control[:cn]); err == nil && len(list) == 1 && list[0].Data[0]&3 == 3 {
			o.Marked++
		}
		// The line is busy with those before it that were not lost.
		if earliest := testDelay + time.Duration(o.Received)*testLine*8*time.Second/testRate; at < earliest {
			o.Early = append(o.Early, fmt.Sprintf("datagram %d after %v, not %v", i, at, earliest))
		}
	}
}

// liveCounts is the output of --live --json.
type liveCounts struct {
	Links     []linkResult
	Late      int64 `json:"late_median_ns"`
	Late99    int64 `json:"late_p99_ns"`
	Overrun   int
	NoMemory  int `json:"no_memory"`
	Refused   int
	there     linkResult
	endsAlone int // packets besides the burst
}

// play sends a burst over a link with some options.
func (b burst) play(t *testing.T, options string, args ...string) (o observed, c liveCounts) {
	t.Helper()
	b.Result = filepath.Join(t.TempDir(), "observed")
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(burstVar, string(text))
	out, errOut, status := live(t, fmt.Sprintf("host a b\nlink a b rate %db/s delay %v %s",
		testRate, testDelay, options), append(args, "--json"), os.Args[0])
	if status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err = os.ReadFile(b.Result)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.Links {
		if l.Name == "a-b" {
			c.there = l
		}
	}
	c.endsAlone = c.there.Passed + c.there.Lost + c.there.Dropped - b.Count
	t.Logf("%+v, %+v", o, c)
	if len(o.Early) > 0 || o.Reordered > 0 || c.Overrun > 0 || c.Refused > 0 || c.endsAlone < 1 || c.Late < 1 {
		t.Errorf("%+v, %+v", o, c)
	}
	return o, c
}

// live runs a program on a network, as "verbena sim --live" does, or skips the test.
func live(t *testing.T, scenario string, args []string, program ...string) (out, errOut string, status int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "net.sim")
	if err := os.WriteFile(name, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"sim", "--live"}, args...), name)
	if len(program) > 0 {
		args = append(append(args, "--"), program...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &o, &e, stopGrace
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	for _, missing := range []string{"--live needs namespaces", "/dev/net/tun", "needs CAP_NET_ADMIN"} {
		if strings.Contains(e.String(), missing) {
			t.Skipf("this machine has no live networks: %s", &e)
		}
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// A link without loss delivers all, in order, and nothing earlier than its rate and delay allow.
func TestLiveDelivers(t *testing.T) {
	for _, network := range []string{"udp4", "udp6"} {
		b := burst{Network: network, Count: 1000, ECN: 2}
		if o, c := b.play(t, "buffer 10MB"); o.Received != b.Count || o.Marked != 0 || c.there.Lost+c.there.Dropped > 0 {
			t.Errorf("%s: %+v", network, o)
		}
	}
}

// The link loses as many as it says, about the part that it is told.
func TestLiveLoss(t *testing.T) {
	b := burst{Network: "udp4", Count: 2000}
	o, c := b.play(t, "buffer 10MB loss 10%", "--seed=7")
	lost := b.Count - o.Received
	// Deviation of 2,000 tries at 10 %: 13.4.
	if lost < 100 || lost > 300 || lost > c.there.Lost || c.there.Lost > lost+c.endsAlone {
		t.Errorf("%d lost, the link counts %d", lost, c.there.Lost)
	}
}

// Packets for which the buffer has no room are dropped.
func TestLiveBuffer(t *testing.T) {
	b := burst{Network: "udp4", Count: 1000}
	o, c := b.play(t, "buffer 50KB")
	if lost := b.Count - o.Received; lost == 0 || lost > c.there.Dropped || c.there.Dropped > lost+c.endsAlone {
		t.Errorf("%d lost, the link counts %d", lost, c.there.Dropped)
	}
}

// A queue marks packets that are ECN-capable, and only these.
func TestLiveMarks(t *testing.T) {
	for _, network := range []string{"udp4", "udp6"} {
		b := burst{Network: network, Count: 1000, ECN: 2}
		if o, c := b.play(t, "buffer 10MB mark 10KB"); o.Received != b.Count || o.Marked == 0 || o.Marked > c.there.Marked || c.there.Marked > o.Marked+c.endsAlone {
			t.Errorf("%s: %+v, %+v", network, o, c.there)
		}
		b.ECN = 0
		if o, c := b.play(t, "buffer 10MB mark 10KB"); o.Received != b.Count || o.Marked+c.there.Marked > 0 {
			t.Errorf("%s: %+v, %+v", network, o, c.there)
		}
	}
}

// The command's status is the program's, and the hosts have the addresses that it names.
func TestLiveProgram(t *testing.T) {
	const pair = "host a b\nlink a b rate 1Gb/s\n"
	out, errOut, status := live(t, pair, nil, "sh", "-c", "ip -n b -o address show eth0; exit 3")
	if status != 3 || !strings.Contains(out, "10.0.0.2/8") || !strings.Contains(out, "fd00::2/64") ||
		!strings.Contains(errOut, "b: 10.0.0.2, fd00::2; ip netns exec b PROGRAM") || !strings.Contains(out, "frames came late by") {
		t.Errorf("status %d: %s\n%s", status, out, errOut)
	}
	for _, c := range []struct {
		scenario string
		args     []string
		program  string
		status   int
		want     string
	}{
		{pair, nil, "no-such-program", cli.ExitNoProgram, "there is no program no-such-program"},
		{"host a", nil, "true", cli.ExitFailure, "a live network has from 2 to 64 hosts, here are 1"},
		{"host a1..a65", nil, "true", cli.ExitFailure, "a live network has from 2 to 64 hosts, here are 65"},
		{pair, []string{"--inside"}, "true", cli.ExitUsage, "--inside is for the process that --live starts"},
		{pair, []string{"--csv"}, "true", cli.ExitUsage, "--live has no time series"},
		{pair, []string{"--mtu=100"}, "true", cli.ExitUsage, "--mtu 100 is not from 1280 to 65521"},
	} {
		if _, errOut, status := live(t, c.scenario, c.args, c.program); status != c.status || !strings.Contains(errOut, c.want) {
			t.Errorf("%v %s: status %d, %s, want %q", c.args, c.program, status, errOut, c.want)
		}
	}
}

// Where it may, the network runs at real-time priority with all threads of its process: else one
// that waits for the processor could hold up the network. The program does not inherit that.
func TestLivePriority(t *testing.T) {
	const policies = `cut -d' ' -f41 /proc/$PPID/task/*/stat; echo; cut -d' ' -f41 /proc/self/stat`
	out, errOut, _ := live(t, "host a b\nlink a b rate 1Gb/s", nil, "sh", "-c", policies)
	may := onThread(func() error {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		return unix.SchedSetAttr(0, &attr, 0)
	})
	if may != nil {
		t.Skipf("this user may not give a thread real-time priority: %v", may)
	}
	network, program, ok := strings.Cut(out, "\n\n")
	switch urgent := strings.Count(network, strconv.Itoa(unix.SCHED_FIFO)); {
	case !ok:
		t.Errorf("%s%s", out, errOut)
	case urgent < 3 || !strings.HasPrefix(program, "0\n"):
		t.Errorf("policies of the network's threads %q, of the program %q", network, program)
	}
}

// A live network needs no privilege where users may make namespaces.
func TestLiveNeedsNoRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests show it: this one is another user than root")
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(os.Args[0])
	name := filepath.Join(dir, "net.sim")
	if err := firstOf(err, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "verbena"), program, 0o755),
		os.WriteFile(name, []byte("host a b\nlink a b rate 1Gb/s"), 0o644)); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd := exec.Command(filepath.Join(dir, "verbena"), "sim", "--live", name, "--", "ip", "-n", "b", "link", "show", "eth0")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EACCES) || strings.Contains(string(out), "--live needs namespaces") {
		t.Skipf("here other users have no namespaces: %v: %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "mtu 1500") {
		t.Errorf("%v: %s", err, out)
	}
}

// background is a shell program with a second process in the background. Both read until the end of
// standard input. It tells when both run.
const background = `exec 3<&0; cat <&3 & echo ready; cat <&3`

// startLive starts a shell program on a network, and returns when it has written its first line.
// Its processes hold a pipe open, from which the rest of their output is read.
func startLive(t *testing.T, program string) (cmd *exec.Cmd, rest *os.File) {
	t.Helper()
	live(t, "host a b\nlink a b rate 1Gb/s", nil, "true") // or skips
	name := filepath.Join(t.TempDir(), "net.sim")
	inRead, inWrite, err := os.Pipe()
	rest, outWrite, err2 := os.Pipe()
	if err := firstOf(err, err2, os.WriteFile(name, []byte("host a b\nlink a b rate 1Gb/s"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inWrite.Close() // ends a process that is left
		rest.Close()
	})
	cmd = exec.Command(os.Args[0], "sim", "--live", name, "--", "sh", "-c", program)
	cmd.Stdin, cmd.Stdout = inRead, outWrite
	err = cmd.Start()
	inRead.Close()
	outWrite.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	const ready = "ready\n"
	line := make([]byte, len(ready))
	if _, err := io.ReadFull(rest, line); err != nil || string(line) != ready {
		t.Fatalf("%v: %q", err, line)
	}
	return cmd, rest
}

// No process of the program outlives the command, however that ends.
func TestLiveLeavesNoProcess(t *testing.T) {
	for _, c := range []struct {
		signal        os.Signal
		program, want string
	}{
		{unix.SIGKILL, background, ""},
		{unix.SIGTERM, background, "frames came late by"},
		{unix.SIGTERM, `trap "" TERM; ` + background, "frames came late by"},
	} {
		cmd, rest := startLive(t, c.program)
		if err := firstOf(cmd.Process.Signal(c.signal), rest.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(rest); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v, %s: %v: %q", c.signal, c.program, err, out)
		}
	}
}

// Orphans of the program are waited for.
func TestLiveReaps(t *testing.T) {
	// The second shell's child becomes an orphan. The third one looks for it until it has gone.
	const program = `orphan=$(sh -c 'true & echo $!'); while kill -0 $orphan 2>&-; do :; done`
	if out, errOut, status := live(t, "host a b\nlink a b rate 1Gb/s", nil, "sh", "-c", program); status != 0 {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// The file may be a pipe, which can be read once.
func TestLivePipe(t *testing.T) {
	live(t, "host a b\nlink a b rate 1Gb/s", nil, "true") // or skips
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("host a b\nlink a b rate 1Gb/s"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	cmd := exec.Command(os.Args[0], "sim", "--live", "/dev/fd/3", "--", "true")
	cmd.ExtraFiles = []*os.File{r}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A network that loses an interface ends the program, says so, and prints the counts.
func TestLiveInterfaceGone(t *testing.T) {
	const program = `mkfifo "$0"; ip -n a link del eth0; cat <>"$0"`
	out, errOut, status := live(t, "host a b\nlink a b rate 1Gb/s", nil, "sh", "-c", program,
		filepath.Join(t.TempDir(), "fifo"))
	if status != cli.ExitFailure || !strings.Contains(errOut, "the network stopped: ") || !strings.Contains(out, "frames came late by") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// Frames under way have bounded memory, and so has the table of stations.
func TestWireIsBounded(t *testing.T) {
	net := simnet.New(1)
	ports := []*port{{addr: netip.MustParseAddr("10.0.0.1")}, {addr: netip.MustParseAddr("10.0.0.2")}}
	a, b := net.Host("a", ports[0].addr), net.Host("b", ports[1].addr)
	net.Connect(a, b, &simnet.Link{Delay: time.Hour}, &simnet.Link{})
	w := newWire(net, 1500, ports)
	w.mostFrames = 100
	w.stations[macOf(1)] = ports[1]
	for i := range maxStations + 1000 {
		f := w.newFrame()
		to, from := macOf(1), mac{2, 0, 0, 1, byte(i >> 8), byte(i)}
		copy(f, append(to[:], from[:]...))
		w.enter(ports[0], f[:100])
	}
	if got := net.Links()[0].Count.Passed; w.frames > w.mostFrames+1 || got < 99 || got > 100 || w.tooMany != maxStations+1000-got {
		t.Errorf("%d frames, %d passed, %d were too many", w.frames, got, w.tooMany)
	}
	if len(w.stations) != maxStations {
		t.Errorf("%d stations", len(w.stations))
	}
}

// A station that has moved is found at its new port, and frames to unknown ones go to all.
func TestWireLearns(t *testing.T) {
	net := simnet.New(1)
	var ports []*port
	s := net.Switch("s")
	for i := range 3 {
		ports = append(ports, &port{addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})})
		net.Connect(net.Host(strconv.Itoa(i), ports[i].addr), s, &simnet.Link{}, &simnet.Link{})
	}
	w := newWire(net, 1500, ports)
	var got []int
	for i, p := range ports {
		net.Attach(p.addr, func(d *simnet.Datagram) {
			got = append(got, i)
			w.recycle(d.Payload)
		})
	}
	station, other, all := mac{2, 1}, mac{2, 2}, mac{0xff}
	for _, c := range []struct {
		port     int
		from, to mac
		want     string
	}{
		{0, station, other, "[1 2]"}, // to one that nobody knows
		{1, other, station, "[0]"},
		{2, station, all, "[0 1]"}, // it has moved
		{1, other, station, "[2]"},
		{2, other, station, "[]"}, // back where it came from
	} {
		got = []int{}
		f := w.newFrame()
		copy(f, append(c.to[:], c.from[:]...))
		w.enter(ports[c.port], f[:60])
		for net.Step(1 << 40) {
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v to %v: at %v, want %s", c.from, c.to, got, c.want)
		}
	}
	if w.frames != len(w.free) {
		t.Errorf("%d frames, %d free", w.frames, len(w.free))
	}
}
