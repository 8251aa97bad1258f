// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
	"verbena/internal/testkit/childproc"
)

// patience bounds every wait for something that must happen.
const patience = 10 * monotime.Second

// A test datagram has as much of a BTH as steering looks at. Then follows either a slot, or 0 and
// the key of a listener, which ends before a slash.
func datagram(q ib.QPN, slot int, key string) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(q))
	return append(append(b, byte(slot)), key...)
}

func routeTest(d []byte, _ netip.Addr) Route {
	switch {
	case len(d) < 9:
		return Route{}
	case d[8] == everySlot:
		return Route{To: ToAll}
	case len(d) > 9:
		r := Route{To: ToKey}
		key, _, _ := bytes.Cut(d[9:], []byte("/"))
		r.Keys.Add(key)
		return r
	}
	return Route{To: ToSlot, Slot: int(d[8])}
}

// overlapTest makes all keys that begin with "all" the same.
func overlapTest(a, b string) bool { return strings.HasPrefix(a, "all") && strings.HasPrefix(b, "all") }

// everySlot in the place of a slot makes a datagram one for all.
const everySlot = 255

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == KeeperCommand {
		keeperMain(os.Args[2:])
		return
	}
	if dir := os.Getenv("VERBENA_SHARE_CHILD"); dir != "" {
		childMain(dir)
		return
	}
	os.Exit(m.Run())
}

// childMain is a member that obeys its standard input, one command per line, and answers with a
// line.
func childMain(dir string) {
	limitSelf()
	keeperPatience()                        // where it is the keeper
	mads := make(chan string, 2*maxBacklog) // more than a test leaves unread
	told := make(chan struct{}, 1024)       // more keepers than a test kills
	m, err := Join(dir, Options{MADRules: testRules(dir), OnMAD: func(d MAD) {
		select {
		case mads <- string(d.Payload[9:]):
		default: // OnMAD must not block; the test has given up reading
		}
	}, OnKeeper: func() { told <- struct{}{} }})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("slot", m.Slot())
	c := &child{m: m, mads: mads, told: told, batch: udp.NewRxBatch()}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		out, err := c.do(f[0], f[1:])
		if err != nil {
			fmt.Println("error", err)
			continue
		}
		fmt.Println("ok", out)
	}
}

type child struct {
	m     Member
	mads  chan string
	told  chan struct{}
	batch *udp.RxBatch
}

func (c *child) do(verb string, arg []string) (string, error) {
	switch verb {
	case "socket":
		_, err := c.m.Socket(netip.MustParseAddr(arg[0]))
		return "", err
	case "receive":
		return "", c.m.Receive(netip.MustParseAddr(arg[0]))
	case "send": // from to text
		return "", c.m.Send(netip.MustParseAddr(arg[0]), netip.MustParseAddrPort(arg[1]), []byte(arg[2]))
	case "read": // addr count: that many datagrams, how many are for others
		s, err := c.m.Socket(netip.MustParseAddr(arg[0]))
		if err != nil {
			return "", err
		}
		n, _ := strconv.Atoi(arg[1])
		wrong, err := readDatagrams(s, c.batch, n, c.m.QPNRange)
		return strconv.Itoa(wrong), err
	case "part", "steer", "read-part": // addr part [count], as read
		addr := netip.MustParseAddr(arg[0])
		part, _ := strconv.Atoi(arg[1])
		if verb == "steer" {
			return "", c.m.SteerPart(addr, part)
		}
		s, err := c.m.Part(addr, part)
		if err != nil || verb == "part" {
			return "", err
		}
		n, _ := strconv.Atoi(arg[2])
		wrong, err := readDatagrams(s, c.batch, n, func() (lo, hi ib.QPN) {
			lo = ib.QPN(shareOf(c.m.Slot(), part)) << partShift
			return lo, lo + 1<<partShift - 1
		})
		return strconv.Itoa(wrong), err
	case "pending": // addr: datagrams that wait to be read
		s, err := c.m.Socket(netip.MustParseAddr(arg[0]))
		if err != nil {
			return "", err
		}
		n, err := s.ReadBatch(c.batch)
		return strconv.Itoa(n), err
	case "listen":
		return "", c.m.Listen(arg[0])
	case "unlisten":
		c.m.Unlisten(arg[0])
		return "", nil
	case "mad":
		return <-c.mads, nil
	case "told": // waits to be told of a new keeper
		<-c.told
		return "", nil
	case "keepers": // that it was told of, and has not waited for
		return strconv.Itoa(len(c.told)), nil
	case "keeper": // whether it is the keeper
		m := c.m.(*member)
		// A request is answered by a keeper that lives, perhaps by ourselves.
		key := fmt.Sprint("test of ", os.Getpid())
		if err := m.Listen(key); err != nil {
			return "", err
		}
		m.Unlisten(key)
		m.mu.Lock()
		defer m.mu.Unlock()
		return strconv.FormatBool(m.host != nil), nil
	case "sockets": // of this process
		list, _ := filepath.Glob("/proc/self/fd/*")
		return strconv.Itoa(len(slices.DeleteFunc(list, func(fd string) bool {
			is, _ := os.Readlink(fd)
			return !strings.HasPrefix(is, "socket:")
		}))), nil
	case "children": // that wait(2) would find
		_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		return fmt.Sprint(err), nil
	case "will": // id local destination text
		id, _ := strconv.ParseUint(arg[0], 10, 64)
		return "", c.m.SetWill(id, Will{Local: netip.MustParseAddr(arg[1]), Dst: netip.MustParseAddrPort(arg[2]), Datagram: []byte(arg[3])})
	case "clear":
		id, _ := strconv.ParseUint(arg[0], 10, 64)
		c.m.ClearWill(id)
		return "", nil
	case "pollers": // of the Go runtime
		return strconv.Itoa(runtimePollers()), nil
	case "closeall": // as closefrom(3) does
		return "", unix.CloseRange(3, 1<<31-1, 0)
	case "close":
		return "", c.m.Close()
	}
	return "", fmt.Errorf("unknown verb %q", verb)
}

// readDatagrams reads n datagrams and counts those outside a range of QPNs.
func readDatagrams(s *udp.Socket, b *udp.RxBatch, n int, own func() (lo, hi ib.QPN)) (wrong int, err error) {
	p, err := udp.NewPoller()
	if err != nil {
		return 0, err
	}
	defer p.Close()
	p.Add(s, 0)
	lo, hi := own()
	ready := make([]uint64, 1)
	for until := monotime.Now().Add(patience); n > 0; {
		if _, err := p.Wait(patience, ready); err != nil || until.Before(monotime.Now()) {
			return wrong, fmt.Errorf("%d datagrams did not come: %v", n, err)
		}
		s.ReadBatch(b)
		for i := range b.Len() {
			m := b.Message(i)
			for j := range m.Segments() {
				q := ib.QPN(binary.BigEndian.Uint32(m.Segment(j)[4:]))
				if q < lo || q > hi {
					wrong++
				}
				n--
			}
		}
	}
	return wrong, nil
}

// process is a child.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	slot int
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	p, line := begin(t, dir)
	if n, _ := fmt.Sscanf(line, "slot %d", &p.slot); n != 1 {
		t.Fatalf("child did not join: %s", line)
	}
	return p
}

// begin starts a child, which may not join, and returns its first line.
func begin(t *testing.T, dir string) (*process, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VERBENA_SHARE_CHILD="+dir)
	in, out := childproc.Start(t, cmd)
	p := &process{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p, p.line()
}

func (p *process) line() string {
	p.t.Helper()
	defer time.AfterFunc(2*patience, func() { p.cmd.Process.Kill() }).Stop() // a hang is a failure
	if !p.out.Scan() {
		p.t.Fatalf("child of slot %d ended: %v", p.slot, p.out.Err())
	}
	return p.out.Text()
}

// ask makes the child do something and returns its answer or error.
func (p *process) ask(format string, arg ...any) string {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", arg...)
	return strings.TrimSpace(strings.TrimPrefix(p.line(), "ok"))
}

// must makes the child do something that succeeds.
func (p *process) must(want, format string, arg ...any) {
	p.t.Helper()
	if got := p.ask(format, arg...); got != want {
		p.t.Fatalf("slot %d: %s: got %q, want %q", p.slot, fmt.Sprintf(format, arg...), got, want)
	}
}

// kill ends the child as kill -9 does and waits until it is gone.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// network has one test's addresses, so that tests disturb neither each other nor a real device.
type network struct {
	dir    string
	a, b   netip.Addr
	sender *udp.Socket
}

func newNetwork(t *testing.T, host byte) *network {
	t.Helper()
	dir, err := os.MkdirTemp("", "share")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Cleanup(func() { killAll(t, dir) })
	pid := os.Getpid()
	n := &network{dir: dir, a: netip.AddrFrom4([4]byte{127, byte(pid>>8&0x7f | 0x40), byte(pid), host}), b: netip.AddrFrom4([4]byte{127, byte(pid>>8&0x7f | 0x40), byte(pid), host + 1})}
	// A member that refuses a datagram answers at the port.
	if n.sender, err = udp.Listen(netip.AddrFrom4([4]byte{127, byte(pid>>8&0x7f | 0x40), byte(pid), host + 128}), Port, udp.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.sender.Close() })
	return n
}

func (n *network) send(t *testing.T, to netip.Addr, payload ...[]byte) {
	t.Helper()
	for _, p := range payload {
		if m, err := n.sender.WriteBatch([]udp.Datagrams{{Dst: netip.AddrPortFrom(to, Port), Iov: [][]byte{p}}}); m != 1 || err != nil {
			t.Fatalf("send to %v: %d, %v", to, m, err)
		}
	}
}

// flood sends n datagrams to each slot, in turn, with changing queue pairs.
func (n *network) flood(t *testing.T, to netip.Addr, count int, ps ...*process) {
	t.Helper()
	for i := range count {
		for _, p := range ps {
			low := max(ib.QPN(i*0x1357)&(1<<SlotShift-1), ib.QP1+1)
			n.send(t, to, datagram(ib.QPN(p.slot)<<SlotShift|low, 0, "data"))
		}
	}
}

// keeperOf returns the keeper among ps, and the others, where there is no command.
func keeperOf(t *testing.T, ps []*process) (keeper *process, others []*process) {
	t.Helper()
	for _, p := range ps {
		if p.ask("keeper") == "true" {
			if keeper != nil {
				t.Fatal("there are two keepers")
			}
			keeper = p
		} else {
			others = append(others, p)
		}
	}
	if keeper == nil {
		t.Fatal("there is no keeper")
	}
	return keeper, others
}

func startMany(t *testing.T, dir string, n int) []*process {
	t.Helper()
	var ps []*process
	for range n {
		ps = append(ps, start(t, dir))
	}
	return ps
}

func TestEachDatagramReachesItsProcess(t *testing.T) {
	n := newNetwork(t, 1)
	ps := startMany(t, n.dir, 4)
	for _, p := range ps {
		p.must("", "socket %v", n.a)
	}
	const each = 4000
	for i := 0; i < each; i += 500 { // as much at once as the sockets hold
		n.flood(t, n.a, 500, ps...)
		for _, p := range ps {
			p.must("0", "read %v 500", n.a)
		}
	}
	seen := map[int]bool{}
	for _, p := range ps {
		if seen[p.slot] {
			t.Errorf("slot %d is owned twice", p.slot)
		}
		seen[p.slot] = true
	}
}

func TestKilledMemberTakesNothingWithIt(t *testing.T) {
	n := newNetwork(t, 3)
	ps := startMany(t, n.dir, 4)
	for _, p := range ps {
		p.must("", "socket %v", n.a)
		p.must("", "socket %v", n.b)
	}
	ps[1].kill()
	dead := ps[1]
	ps = []*process{ps[0], ps[2], ps[3]}
	n.flood(t, n.a, 300, append(ps, dead)...) // the dead one's go nowhere
	n.flood(t, n.b, 300, ps...)
	for _, p := range ps {
		p.must("0", "read %v 300", n.a)
		p.must("0", "read %v 300", n.b)
		p.must("0", "pending %v", n.a)
	}
}

// A keeper that is killed, be it a process of its own or a member, takes nothing with it. Datagrams
// for queue pairs come also while there is no keeper.
func TestKilledKeeperIsFollowed(t *testing.T) {
	inBothPlaces(t, func(t *testing.T) {
		n := newNetwork(t, 5)
		ps := startMany(t, n.dir, 4)
		for _, p := range ps {
			p.must("", "socket %v", n.a)
		}
		for round := range 3 {
			others := n.killKeeper(t, ps)
			n.flood(t, n.a, 200, others...)
			for i, p := range others {
				p.must("", "listen key-%d-%d", round, i) // waits for the new keeper
				p.must("", "told")
				p.must("0", "read %v 200", n.a)
			}
			newcomer := start(t, n.dir)
			newcomer.must("0", "pending %v", n.a)
			ps = append(others, newcomer)
			// The group is still the same: the newcomer's socket is steered to.
			n.flood(t, n.a, 100, ps...)
			for _, p := range ps {
				p.must("0", "read %v 100", n.a)
			}
		}
		// All gone: the next one starts anew.
		for _, p := range ps {
			p.kill()
		}
		p := start(t, n.dir)
		p.must("", "socket %v", n.a)
		n.flood(t, n.a, 10, p)
		p.must("0", "read %v 10", n.a)
	})
}

func TestManagementDatagramsFindTheirMember(t *testing.T) {
	inBothPlaces(t, func(t *testing.T) {
		n := newNetwork(t, 7)
		ps := startMany(t, n.dir, 4)
		ps[0].must("", "socket %v", n.a)
		ps[1].must("", "listen rping")
		ps[2].must("", "listen perf")
		ps[3].must("", "listen own")
		if got := ps[2].ask("listen rping"); !strings.Contains(got, "address already in use") {
			t.Errorf("second listener for one key: %q", got)
		}
		if got := ps[1].ask("listen rping"); !strings.Contains(got, "address already in use") {
			t.Errorf("one member's second listener for one key: %q", got)
		}
		ps[2].must("", "listen all-1")
		if got := ps[1].ask("listen all-2"); !strings.Contains(got, "address already in use") {
			t.Errorf("a key that overlaps: %q", got)
		}
		n.send(t, n.a, datagram(1, 0, "rping"), datagram(1, 0, "perf"), datagram(1, 0, "own"), datagram(ib.QPMulticast, 0, "no MAD"), []byte{1, 2, 3}, datagram(1, 0, "nobody's"))
		ps[1].must("rping", "mad")
		ps[2].must("perf", "mad")
		ps[3].must("own", "mad")
		n.refused(t, "nobody's")
		// By slot: no key.
		n.send(t, n.a, datagram(1, ps[2].slot, ""))
		ps[2].must("", "mad")
		// A keeper that is killed leaves its last datagram to the next keeper, which passes it on
		// again: this one has read the next.
		n.send(t, n.a, datagram(1, 0, "own"))
		ps[3].must("own", "mad")

		// A new keeper knows the listeners.
		others := n.killKeeper(t, ps)
		for _, p := range others {
			p.must("", "listen sync-%d", p.slot) // all are connected now
		}
		for i, key := range []string{"", "rping", "perf", "own"} {
			if p := ps[i]; key != "" && slices.Contains(others, p) {
				n.send(t, n.a, datagram(1, 0, key))
				p.must(key, "mad")
			}
		}
		// A listener that dies lets go of its key; so does Unlisten.
		last := others[len(others)-1]
		last.must("", "unlisten own")
		others[0].must("", "listen own")
		others[0].kill()
		for until := monotime.Now().Add(patience); last.ask("listen own") != ""; {
			if until.Before(monotime.Now()) {
				t.Fatal("what a dead member listened for is not free")
			}
		}
	})
}

// A request that comes a moment before its listener finds it, at the keeper and
// at others: ib_write_bw -R is about to listen when it tells its peer to connect.
func TestRequestBeforeItsListener(t *testing.T) {
	n := newNetwork(t, 29)
	ps := startMany(t, n.dir, 2)
	ps[0].must("", "socket %v", n.a)
	for _, p := range ps {
		key := fmt.Sprint("key", p.slot)
		// The one for all says that the keeper has read the request.
		n.send(t, n.a, datagram(1, 0, key), datagram(1, everySlot, "read"))
		for _, p := range ps {
			p.must("read", "mad")
		}
		p.must("", "listen %s", key)
		p.must(key, "mad")
	}
	n.send(t, n.a, datagram(1, 0, "nobody's"))
	n.refused(t, "nobody's") // in the end
}

// A datagram for everybody, because it names no member, comes to every member.
func TestManagementDatagramForAll(t *testing.T) {
	n := newNetwork(t, 23)
	ps := startMany(t, n.dir, 3)
	ps[0].must("", "socket %v", n.a)
	n.send(t, n.a, datagram(1, everySlot, "all"))
	for _, p := range ps {
		p.must("all", "mad")
	}
}

// A new keeper lets datagrams wait for members that have not found it yet. If it refused them, a
// REQ would be answered with "nobody listens", and a REP would be lost until the peer repeats it
// seconds later.
func TestNewKeeperWaitsForItsMembers(t *testing.T) {
	n := newNetwork(t, 25)
	ps := startMany(t, n.dir, 2)
	slow, next := ps[0], ps[1]
	slow.must("", "socket %v", n.a)
	slow.must("", "listen rping")
	next.must("", "socket %v", n.a)
	slow.stop() // it notices nothing
	n.killKeeper(t, ps)
	next.must("", "told")
	n.send(t, n.a, datagram(1, 0, "rping"), datagram(1, slow.slot, ""), datagram(1, next.slot, ""))
	next.must("", "mad") // its own: the new keeper has seen all three
	slow.cmd.Process.Signal(syscall.SIGCONT)
	got := []string{slow.ask("mad"), slow.ask("mad")} // it says that it listens after it has come
	if slices.Sort(got); !slices.Equal(got, []string{"", "rping"}) {
		t.Fatalf("the slow member got %q", got)
	}
	n.send(t, n.a, datagram(1, 0, "nobody's"))
	n.refused(t, "nobody's") // and nothing else has been refused before
}
