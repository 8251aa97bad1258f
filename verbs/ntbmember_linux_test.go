// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/ntb/backend"
	"verbena/internal/testkit/childproc"
	"verbena/verbs"
)

// Processes of a shared-memory hub. Each is this test program, which carries out commands line by
// line, and answers.

// memberEnv makes the test program a member of a shared-memory hub.
const memberEnv = "VERBENA_TEST_MEMBER"

func init() {
	if device := os.Getenv(memberEnv); device != "" {
		serveMember(device)
		os.Exit(0)
	}
}

const (
	roomBytes = 4096
	maxPairs  = 40
)

// ends holds a member's queue pairs, each with a room of its own in the window: the part that its
// peer fills, and the data that fills the peer's.
type ends struct {
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	buf []byte
	mr  *verbs.MR
	qps []*verbs.QP
	wcs map[uint64][]ib.WC // by queue pair, those of receives and sends that nobody has asked for
}

func serveMember(device string) {
	e := &ends{ctx: must(verbs.Open(device)), wcs: map[uint64][]ib.WC{}}
	e.pd, e.cq = must(e.ctx.AllocPD()), must(e.ctx.CreateCQ(16*maxPairs, nil))
	e.buf = must(e.ctx.AllocBuffer(2 * maxPairs * roomBytes)).Bytes()
	e.mr = must(e.pd.RegMR(e.buf, allAccess))
	gid := must(e.ctx.QueryGID(1, 1)).Addr()
	fmt.Println(e.mr.Addr(), uint32(e.mr.RKey()), gid)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word, to string
		var k int
		var a, b uint64
		n, _ := fmt.Sscan(in.Text(), &word, &k, &a, &b, &to)
		if n < 2 {
			fmt.Println("what?", in.Text())
			continue
		}
		switch word {
		case "new":
			fmt.Println(uint32(e.create()))
		case "connect":
			fmt.Println(e.connect(e.qps[k], ib.QPN(a), to))
		case "write":
			fmt.Println(e.write(k, a, ib.RKey(b)))
		case "wait":
			fmt.Println(e.wait(k))
		case "byte":
			fmt.Println(e.filled(k))
		}
	}
	done(e.ctx.Close())
}

func (e *ends) create() ib.QPN {
	q := must(e.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 8}}))
	e.qps = append(e.qps, q)
	return q.QPN()
}

// connect brings a queue pair to RTS, unless it has gone to error before. A queue pair does that if
// its peer's process is not found.
func (e *ends) connect(q *verbs.QP, peer ib.QPN, to string) error {
	if q.State() != ib.QPReset {
		done(q.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	}
	a := ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: allAccess}
	done(q.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	a = ib.QPAttr{State: ib.QPRTR, DestQPN: peer, PathMTU: ib.MTU1024, RQPSN: 77, MinRNRTimer: 1, MaxDestRdAtomic: 1, AH: ib.AHAttr{PortNum: 1}}
	if to != "" {
		a.AH.IsGlobal, a.AH.GRH.DGID, a.AH.GRH.SGIDIndex = true, ib.GIDFromAddr(netip.MustParseAddr(to)), 1
	}
	if err := q.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPPathMTU|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer); err != nil {
		return err
	}
	must(q.PostRecv(verbs.RecvWR{}))
	a = ib.QPAttr{State: ib.QPRTS, SQPSN: 77, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
	err := q.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic)
	if err != nil && q.State() == ib.QPErr {
		return nil
	}
	return err
}

// room returns a queue pair's part of the memory: the part that its peer fills, or the data that it
// sends.
func (e *ends) room(k, which int) []byte { return e.buf[(2*k+which)*roomBytes:][:roomBytes] }

// write fills the peer's room, and tells it.
func (e *ends) write(k int, addr uint64, key ib.RKey) ib.WCStatus {
	mine := e.room(k, 1)
	for i := range mine {
		mine[i] = byte(e.qps[k].QPN()) ^ byte(e.qps[k].QPN()>>16)
	}
	_, err := e.qps[k].PostSend(
		verbs.SendWR{ID: uint64(k), Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{e.mr.SGE((2*k+1)*roomBytes, roomBytes)}, RemoteAddr: addr, RKey: key},
		verbs.SendWR{ID: uint64(k), Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte{}})
	done(err)
	return e.wait(k)
}

// wait waits for the next completion of a queue pair, whose next receive it posts.
func (e *ends) wait(k int) ib.WCStatus {
	qpn := uint64(e.qps[k].QPN())
	var room [8]ib.WC
	for end := time.Now().Add(20 * time.Second); len(e.wcs[qpn]) == 0; runtime.Gosched() {
		for _, wc := range room[:must(e.cq.Poll(room[:]))] {
			e.wcs[uint64(wc.QPN)] = append(e.wcs[uint64(wc.QPN)], wc)
		}
		if time.Now().After(end) {
			return ib.WCGeneralErr
		}
	}
	wc := e.wcs[qpn][0]
	e.wcs[qpn] = e.wcs[qpn][1:]
	if wc.Status == ib.WCSuccess && wc.Opcode == ib.WCRecv {
		must(e.qps[k].PostRecv(verbs.RecvWR{}))
	}
	return wc.Status
}

// filled returns the value that fills a room, -1 if there are several.
func (e *ends) filled(k int) int {
	b := e.room(k, 0)
	if bytes.Count(b, b[:1]) != len(b) {
		return -1
	}
	return int(b[0])
}

// member is such a process, as its parent has it.
type member struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr uint64
	key  uint32
	gid  string
	qpns []uint32
}

func startMember(t *testing.T, links string) *member {
	t.Helper()
	return startMemberOf(t, "ntb0", links)
}

// startMemberOf starts a process that opens this device.
func startMemberOf(t *testing.T, device, links string) *member {
	t.Helper()
	m := &member{t: t, cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), memberEnv+"="+device, "VERBENA_NTB="+links)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, out := childproc.Start(t, m.cmd)
	m.in, m.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		m.in.Close()
		m.cmd.Wait() // fails for one that was killed
	})
	_, err := fmt.Sscan(m.answer(), &m.addr, &m.key, &m.gid)
	check(t, err)
	return m
}

// do has the member do something, and returns its answer.
func (m *member) do(format string, args ...any) string {
	m.t.Helper()
	m.tell(format, args...)
	return m.answer()
}

func (m *member) tell(format string, args ...any) { fmt.Fprintf(m.in, format+"\n", args...) }

func (m *member) answer() string {
	m.t.Helper()
	line, err := m.out.ReadString('\n')
	check(m.t, err)
	return line[:len(line)-1]
}

// stop returns when all threads of the member have stopped. One that was runnable goes on
// for a moment after the signal.
func (m *member) stop() {
	m.t.Helper()
	m.t.Cleanup(func() { m.cmd.Process.Signal(syscall.SIGCONT) })
	check(m.t, m.cmd.Process.Signal(syscall.SIGSTOP))
	check(m.t, unix.Waitid(unix.P_PID, m.cmd.Process.Pid, nil, unix.WSTOPPED, nil))
}

func (m *member) want(answer, format string, args ...any) {
	m.t.Helper()
	if got := m.do(format, args...); got != answer {
		m.t.Fatalf("process %d, "+format+": %s, want %s", append(append([]any{m.cmd.Process.Pid}, args...), got, answer)...)
	}
}

func (m *member) create() (k int) {
	m.t.Helper()
	var n uint32
	_, err := fmt.Sscan(m.do("new 0"), &n)
	check(m.t, err)
	m.qpns = append(m.qpns, n)
	return len(m.qpns) - 1
}

// pair is two queue pairs that are connected.
type pair struct {
	a, b *member
	i, k int
}

func connectMembers(a, b *member) pair {
	a.t.Helper()
	p := pair{a: a, b: b, i: a.create()}
	p.k = b.create()
	a.want("<nil>", "connect %d %d 0 %s", p.i, p.b.qpns[p.k], b.gid)
	b.want("<nil>", "connect %d %d 0 %s", p.k, p.a.qpns[p.i], a.gid)
	return p
}

// exchange has each write to the other.
func (p pair) exchange() {
	p.a.t.Helper()
	for _, p := range []pair{p, {p.b, p.a, p.k, p.i}} {
		p.a.want("success", "write %d %d %d", p.i, p.b.addr+uint64(2*p.k*roomBytes), p.b.key)
		p.b.want("success", "wait %d", p.k)
		n := p.a.qpns[p.i]
		p.b.want(fmt.Sprint(byte(n)^byte(n>>16)), "byte %d", p.k)
	}
}

func place(t *testing.T) (s, c string) {
	dir := filepath.Join(t.TempDir(), "place")
	return "10.99.0.1+10.99.0.2=shm:s:" + dir, "10.99.0.1+10.99.0.2=shm:c:" + dir
}

// TestNTBManyProcesses has processes of two nodes write into each other, all to all: those of the
// other side, of their own, and themselves. One of them is killed again and again: only its
// connections end, and the next process in its slot is served.
func TestNTBManyProcesses(t *testing.T) {
	s, c := place(t)
	all := []*member{startMember(t, s), startMember(t, s), startMember(t, c), startMember(t, c)}
	var pairs []pair
	for i, a := range all {
		for _, b := range all[i:] {
			p := connectMembers(a, b)
			p.exchange()
			pairs = append(pairs, p)
		}
		// A queue pair may be its own peer, as loopback has it.
		k := a.create()
		a.want("<nil>", "connect %d %d 0 %s", k, a.qpns[k], a.gid)
		a.tell("write %d %d %d", k, a.addr+uint64(2*k*roomBytes), a.key)
		if first := a.answer(); first != "success" {
			t.Fatalf("to itself: %s", first)
		}
		a.want("success", "wait %d", k)
	}
	for range 3 {
		victim := all[3]
		check(t, victim.cmd.Process.Kill())
		victim.cmd.Wait()
		var rest []pair
		for _, p := range pairs {
			switch {
			case p.a == victim && p.b == victim:
			case p.b == victim:
				p.a.want("Work Request Flushed Error", "wait %d", p.i)
			default:
				p.exchange()
				rest = append(rest, p)
			}
		}
		all[3] = startMember(t, c)
		for _, a := range all {
			p := connectMembers(a, all[3])
			p.exchange()
			rest = append(rest, p)
		}
		pairs = rest
	}
	crowd(t, all, c)
}

// crowd starts processes until each kind of device has many: together more than the 63 that all
// kinds shared once. Each process has a slot of its own, and a connection to the last of its kind.
func crowd(t *testing.T, ntb []*member, links string) {
	each := 34
	if testing.Short() || raceEnabled {
		each = 6
		t.Logf("%d processes of 34 of each kind, as -short or the race detector wants it", each)
	}
	slots := map[uint32]bool{}
	ntb, roce := ntb[:len(ntb):len(ntb)], []*member{}
	for len(ntb) < each {
		ntb = append(ntb, startMember(t, links))
	}
	for range each {
		roce = append(roce, startMemberOf(t, "roce_lo", links))
	}
	for _, kind := range [][]*member{ntb, roce} {
		last := kind[each-1]
		for _, m := range kind[:each-1] {
			connectMembers(m, last).exchange()
			slots[m.qpns[0]>>14] = true
		}
		slots[last.qpns[0]>>14] = true
	}
	if len(slots) != 2*each {
		t.Errorf("%d processes have %d slots", 2*each, len(slots))
	}
}

// TestNTBWithoutAddress finds the peer by its number: at the other side, and if nobody has it
// there, at its own.
func TestNTBWithoutAddress(t *testing.T) {
	s, _ := place(t)
	a, b := startMember(t, s), startMember(t, s)
	a.gid, b.gid = "", ""
	connectMembers(a, b).exchange()
}

// TestNTBNobodyThere flushes a queue pair whose peer's process is not there.
func TestNTBNobodyThere(t *testing.T) {
	s, _ := place(t)
	a, b := startMember(t, s), startMember(t, s)
	k, gone := a.create(), b.create()
	check(t, b.cmd.Process.Kill())
	b.cmd.Wait()
	a.want("<nil>", "connect %d %d 0 %s", k, b.qpns[gone], b.gid)
	a.want("Work Request Flushed Error", "wait %d", k)
	c := startMember(t, s)
	i := c.create()
	a.want("<nil>", "connect %d %d 0 %s", k, c.qpns[i], c.gid)
	c.want("<nil>", "connect %d %d 0 %s", i, a.qpns[k], a.gid)
	pair{a: a, b: c, i: k, k: i}.exchange()
}

// TestNTBLostBeforeItIsUp flushes a queue pair whose peer's process answers the dial and
// dies before the link is up: nobody is told of a link that is lost then.
func TestNTBLostBeforeItIsUp(t *testing.T) {
	s, c := place(t)
	a := startMember(t, s)
	_, where, _ := strings.Cut(c, "=")
	list, err := backend.ParseEndpoints(where)
	check(t, err)
	const slot = 5
	peer, err := backend.Join(backend.PlaceConfig{Endpoint: list[0], Slot: slot, SessionBytes: backend.MinWindowBytes, MemoryBytes: backend.MinWindowBytes})
	check(t, err)
	defer peer.Close()
	k := a.create()
	a.want("<nil>", "connect %d %d 0 10.99.0.2", k, slot<<14|1)
	m, link, err := peer.Next(20 * time.Second)
	check(t, err)
	if m.Side != 0 {
		t.Errorf("a link to %v", m)
	}
	check(t, link.Close())
	link.Free()
	a.want("Work Request Flushed Error", "wait %d", k)
}

// TestNTBStoppedProcess stops a process for longer than a heartbeat may stand still where nothing
// else shows its end. Existing connections survive. A new connection needs its answer: without one
// for 5 s it is flushed with all its requests. Once the process continues it can be reached as
// before.
func TestNTBStoppedProcess(t *testing.T) {
	t.Parallel() // it waits for seconds
	s, c := place(t)
	a, b := startMember(t, s), startMember(t, c)
	p := connectMembers(a, b)
	p.exchange()
	later := b.create()
	b.stop()
	time.Sleep(3 * time.Second) // the time is the subject of the test
	check(t, b.cmd.Process.Signal(syscall.SIGCONT))
	p.exchange()
	b.stop()
	k := a.create()
	a.want("<nil>", "connect %d %d 0 %s", k, b.qpns[later], b.gid)
	a.want("Work Request Flushed Error", "wait %d", k)
	a.want("Work Request Flushed Error", "wait %d", p.i)
	check(t, b.cmd.Process.Signal(syscall.SIGCONT))
	b.want("Work Request Flushed Error", "wait %d", p.k)
	connectMembers(a, b).exchange()
}

// TestNTBSixteenProcesses connects them all to all. A process maps some gigabytes, and uses some
// megabytes of them.
func TestNTBSixteenProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("16 processes take long: run without -short")
	}
	s, c := place(t)
	var all []*member
	for i := range 16 {
		all = append(all, startMember(t, []string{s, c}[i%2]))
	}
	for i, a := range all {
		for _, b := range all[i:] {
			connectMembers(a, b).exchange()
		}
	}
	used := 0
	for _, m := range all {
		used += m.windowsKiB()
	}
	t.Logf("%d MiB of windows, %d MiB a process", used>>10, used>>10/len(all))
	if used>>10/len(all) > 32 {
		t.Errorf("a process uses %d MiB of windows", used>>10/len(all))
	}
}

// windowsKiB returns how much memory the windows that a process maps take, its share
// of those that others map as well.
func (m *member) windowsKiB() (sum int) {
	m.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", m.cmd.Process.Pid))
	check(m.t, err)
	window := false
	for line := range strings.Lines(string(b)) {
		var size int
		switch first, _, _ := strings.Cut(line, " "); {
		case !strings.HasSuffix(first, ":"): // a mapping begins
			window = strings.Contains(line, "verbena-ntb")
		case window && first == "Pss:":
			_, err := fmt.Sscan(line[len(first):], &size)
			check(m.t, err)
			sum += size
		}
	}
	return sum
}
