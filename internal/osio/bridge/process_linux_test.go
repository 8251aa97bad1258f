package bridge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Two real processes: this one writes, reads and adds in the memory of the
// other, which is killed and started again. Nothing hangs, nothing is written
// where nobody asked for it, and the queue pairs come back.

const (
	windowBytes = 1 << 20
	pd          = mem.PD(1)
	base        = uint64(0x10000)
	openBytes   = 1 << 18
	guard       = 4096
	roleVar     = "VERBENA_BRIDGE_SERVER"
	peerVar     = "VERBENA_BRIDGE_PEER"
	killsVar    = "VERBENA_BRIDGE_KILLS"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(roleVar); where != "" {
		serve(where)
	}
	os.Exit(m.Run())
}

// process is a node and what drives it.
type process struct {
	open  func() (Link, error)
	link  Link
	node  *rdma.Node
	batch *channel.Batch
	table *mem.Table
	q     *rdma.QP
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	cq    *queue.CQ
	all   []byte
	data  []byte
	mr    *mem.Region
	peer  ib.QPN
	sleep time.Duration
	lost  int
}

func newProcess(own, peer ib.QPN, open func() (Link, error)) (*process, error) {
	p := &process{open: open, batch: channel.NewBatch(), table: mem.NewTable(rand.Uint32), sq: queue.NewSendQueue(16, 2, 64), rq: queue.NewRecvQueue(16, 2),
		cq: queue.NewCQ(64), all: bytes.Repeat([]byte{0xee}, openBytes+2*guard), peer: peer, sleep: 5 * time.Millisecond}
	p.data = p.all[guard : guard+openBytes]
	p.node = rdma.New(p.table, rand.Uint64)
	p.q = p.node.NewQP(qp.Config{QPN: own, PD: pd, Mem: p.table, SQ: p.sq, RQ: p.rq, SendCQ: p.cq, RecvCQ: p.cq, SignalAll: true})
	var err error
	p.mr, err = p.table.Register(pd, p.data, base, ib.AccessLocalWrite|ib.AccessRemote)
	return p, err
}

// connect brings the queue pair from anywhere to RTS.
func (p *process) connect() {
	a := ib.QPAttr{AccessFlags: ib.AccessRemote, DestQPN: p.peer, MaxRdAtomic: 4, MaxDestRdAtomic: 4, MinRNRTimer: 1, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	for _, s := range []ib.QPState{ib.QPReset, ib.QPInit, ib.QPRTR, ib.QPRTS} {
		a.State = s
		p.q.Modify(monotime.Now(), &a, ib.QPStateAttr|ib.QPAccessFlags|ib.QPDestQPN|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry)
	}
	p.cq.Purge(p.q.QPN)
}

// turn does what there is to do, or waits a moment.
func (p *process) turn() error {
	if p.link == nil {
		l, err := p.open()
		if Temporary(err) {
			time.Sleep(time.Millisecond)
			return nil
		}
		if err != nil {
			return err
		}
		p.link = l
		p.node.Attach(monotime.Now(), l.Own(), l.PeerBytes())
	}
	err := p.work()
	if errors.Is(err, ErrLost) || errors.Is(err, ErrProtocol) {
		p.lost++
		p.node.Detach(monotime.Now())
		p.link.Close()
		p.link = nil
		return nil
	}
	return err
}

func (p *process) work() error {
	if err := p.link.Receive(); err != nil {
		return err
	}
	now := monotime.Now()
	p.node.Handle(now)
	if !now.Before(p.node.NextTimeout()) {
		p.node.HandleTimeout(now)
	}
	busy, err := p.flush(now)
	if busy || err != nil || p.cq.Len() > 0 {
		return err
	}
	p.node.Channel().Sleep()
	if _, err = p.flush(now); err == nil && p.node.Channel().Quiet() {
		err = p.link.Wait(max(min(p.sleep, p.node.NextTimeout().Sub(now)), 0))
	}
	return err
}

// flush carries out what the node wants written.
func (p *process) flush(now monotime.Time) (busy bool, err error) {
	for {
		if pending, err := p.link.Flush(); pending || err != nil {
			return busy, err
		}
		if !p.node.PollOutput(now, p.batch) {
			return busy, nil
		}
		busy = true
		err := p.link.Write(p.batch)
		rung := p.batch.Rung()
		p.batch.Reset()
		if err != nil {
			return busy, err
		}
		if rung && p.node.Channel().MustWake() {
			p.link.Ring()
		}
	}
}

func (p *process) post(w queue.SendWQE, at, n int) {
	s, _ := p.sq.Reserve()
	sge := s.SGE
	*s = w
	s.Length, s.SGE = uint32(n), append(sge, ib.SGE{Addr: base + uint64(at), Length: uint32(n), LKey: p.mr.LKey()})
	p.sq.Commit()
	p.q.Doorbell(monotime.Now())
}

func (p *process) guarded() bool {
	want := bytes.Repeat([]byte{0xee}, guard)
	return bytes.Equal(p.all[:guard], want) && bytes.Equal(p.all[guard+openBytes:], want)
}

// opener returns how a side opens its link of a kind: shm, tcp or map, and where.
func opener(where string, server bool) func() (Link, error) {
	kind, at, _ := strings.Cut(where, ":")
	role := "c:"
	if server {
		role = "s:"
	}
	switch kind {
	case "tcp":
		at = role + at
	case "shm":
		at = "shm:" + role + at
	default:
		at = strings.Replace("map:"+role+at, role, map[string]string{"c:": "0:", "s:": "1:"}[role], 1)
	}
	list, err := ParseEndpoints(at)
	if err != nil {
		return func() (Link, error) { return nil, err }
	}
	o := NewOpener(list[0], windowBytes)
	return func() (Link, error) { return o.Open(time.Second) }
}

const (
	clientQPN = ib.QPN(0x11)
	serverQPN = ib.QPN(0x22)
)

// serve is the other process. It ends when its parent does.
func serve(where string) {
	fail := func(why any) {
		fmt.Fprintln(os.Stderr, "server:", why)
		os.Exit(3)
	}
	parent := os.Getppid()
	p, err := newProcess(serverQPN, clientQPN, opener(where, true))
	if err != nil {
		fail(err)
	}
	begin := func() {
		p.connect()
		s := queue.SendWQE{Opcode: ib.WRSendWithImm, Imm: uint32(p.mr.RKey())}
		p.post(s, 0, 0)
	}
	begin()
	for os.Getppid() == parent {
		if err := p.turn(); err != nil {
			fail(err)
		}
		var wc [8]ib.WC
		p.cq.Poll(wc[:])
		if p.q.State() == ib.QPErr {
			begin()
		}
		if !p.guarded() {
			fail("bytes that nobody may write have changed")
		}
	}
	os.Exit(0)
}

// client is this process's side of the test.
type client struct {
	*process
	t    *testing.T
	rnd  *rand.Rand
	want []byte  // the peer's memory, as far as it is known; nil: not connected
	rkey ib.RKey // of the peer's memory
	done int     // rounds
}

func (c *client) turns(why string, limit time.Duration, until func() bool) {
	c.t.Helper()
	for end := time.Now().Add(limit); !until(); {
		if err := c.turn(); err != nil {
			c.t.Fatal(err)
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: nothing for %v; link %v, queue pair %v", why, limit, c.node.Channel().State(), c.q.State())
		}
	}
}

// patience is how long nothing may happen: longer than the heartbeat takes to
// notice a dead peer, many times, as the machine may be busy.
const patience = 60 * time.Second

// hello connects, again if need be, until the peer has told its key.
func (c *client) hello() {
	for c.rkey == 0 {
		c.connect()
		r, _ := c.rq.Reserve()
		r.WRID = 1
		c.rq.Commit()
		c.turns("the peer's key", patience, func() bool { return c.cq.Len() > 0 || c.q.State() == ib.QPErr })
		var wc [1]ib.WC
		if c.cq.Poll(wc[:]) == 1 && wc[0].Status == ib.WCSuccess {
			c.rkey = ib.RKey(wc[0].ImmData)
		}
	}
}

// round writes, reads back and adds; false if the connection did not live
// through it.
func (c *client) round() bool {
	const back = openBytes / 2
	n := 1 + c.rnd.IntN([]int{64, 4096, back}[c.rnd.IntN(3)])
	at := 64 + c.rnd.IntN(openBytes-64-n+1)
	for i := range c.data[:n] {
		c.data[i] = byte(c.rnd.Uint32())
	}
	w := queue.SendWQE{Opcode: ib.WRRDMAWrite, RKey: c.rkey, RemoteAddr: base + uint64(at)}
	c.post(w, 0, n)
	r := w
	r.Opcode, r.Flags = ib.WRRDMARead, ib.SendFence
	c.post(r, back, n)
	a := queue.SendWQE{Opcode: ib.WRAtomicFetchAndAdd, RKey: c.rkey, RemoteAddr: base, CompareAdd: 1, Flags: ib.SendFence}
	if n <= back-8 {
		c.post(a, openBytes-8, 8)
	}
	c.turns("completions", patience, func() bool { return c.sq.Len() == 0 || c.q.State() == ib.QPErr })
	var wc [8]ib.WC
	for k := c.cq.Poll(wc[:]); k > 0; k = c.cq.Poll(wc[:]) {
		for i := range wc[:k] {
			if wc[i].Status != ib.WCSuccess {
				c.rkey = 0
			}
		}
	}
	if c.rkey == 0 {
		return false
	}
	if !bytes.Equal(c.data[:n], c.data[back:back+n]) {
		c.t.Fatalf("round %d: %d bytes at %d came back changed", c.done, n, at)
	}
	if n <= back-8 {
		if v := binary.NativeEndian.Uint64(c.data[openBytes-8:]); c.want != nil && v != binary.NativeEndian.Uint64(c.want) {
			c.t.Fatalf("round %d: the counter is %d, want %d", c.done, v, binary.NativeEndian.Uint64(c.want))
		} else {
			c.want = binary.NativeEndian.AppendUint64(nil, v+1)
		}
	}
	c.done++
	return true
}

func startServer(t *testing.T, where string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+where)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestPeer works with a server that others start and kill, as guests do that
// share a PCI device.
func TestPeer(t *testing.T) {
	where := os.Getenv(peerVar)
	if where == "" {
		t.Skipf("%s does not say where a server is", peerVar)
	}
	p, err := newProcess(clientQPN, serverQPN, opener(where, false))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{process: p, t: t, rnd: rand.New(rand.NewPCG(1, 1))}
	for from := time.Now(); c.done < 600; {
		if c.rkey == 0 {
			c.want = nil
			c.hello()
		}
		if !c.round() {
			fmt.Printf("lost the peer after %d rounds\n", c.done)
		} else if c.done%100 == 0 {
			fmt.Printf("%d rounds, %.1f s, the link came up %d times\n", c.done, time.Since(from).Seconds(), c.node.Channel().Count[channel.LinkUps])
		}
		if !c.guarded() {
			t.Fatal("bytes that nobody may write have changed")
		}
	}
}

func freePort(t *testing.T) string {
	// An address of its own: nobody takes the port between two servers.
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(64)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}), 0)
	l, err := ListenTCP(at, windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.AddrPortFrom(at.Addr(), l.port(t)).String()
}

func TestKilledPeer(t *testing.T) {
	kills := 6
	if s := os.Getenv(killsVar); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"shm", "tcp", "map"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			where := kind + ":" + filepath.Join(dir, "link")
			switch kind {
			case "tcp":
				where = "tcp:" + freePort(t)
			case "map":
				if err := os.WriteFile(filepath.Join(dir, "link"), make([]byte, 2*windowBytes), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := newProcess(clientQPN, serverQPN, opener(where, false))
			if err != nil {
				t.Fatal(err)
			}
			c := &client{process: p, t: t, rnd: rand.New(rand.NewPCG(uint64(len(kind)), 1))}
			defer func() {
				if c.link != nil {
					c.node.Detach(monotime.Now())
					c.link.Close()
				}
			}()
			for k := range kills + 1 {
				cmd := startServer(t, where)
				stop := func() {
					cmd.Process.Kill()
					cmd.Wait()
				}
				defer stop()
				c.rkey, c.want = 0, nil
				c.hello()
				from := c.done
				for last := time.Now(); c.done < from+5; { // works as on the first day
					if !c.round() {
						c.hello()
					} else {
						last = time.Now()
					}
					if time.Since(last) > patience {
						t.Fatalf("after kill %d: no round succeeds", k)
					}
				}
				if k == kills {
					break
				}
				killed := make(chan struct{})
				after := time.Duration(c.rnd.IntN(int(20 * time.Millisecond)))
				go func() {
					time.Sleep(after)
					cmd.Process.Kill()
					close(killed)
				}()
				// Through a file only the heartbeat tells, or else the next process.
				if kind != "map" || k%4 == 0 {
					for c.round() {
					}
				}
				<-killed
				if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == 3 {
					t.Fatalf("the server ended by itself: %v", err)
				}
				if !c.guarded() {
					t.Fatal("bytes that nobody may write have changed")
				}
			}
			if up := c.node.Channel().Count[channel.LinkUps]; up < uint64(kills)+1 {
				t.Errorf("the link came up %d times with %d processes", up, kills+1)
			}
		})
	}
}
