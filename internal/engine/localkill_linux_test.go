package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/ib"
)

// remote is a queue pair of another process, as it tells of itself.
type remote struct {
	Addr  netip.Addr
	QPN   ib.QPN
	RKey  ib.RKey
	Local bool // it sends by a ring
}

const peerDir = "VERBENA_ENGINE_PEER_DIR"

// servePeer is the other process: a queue pair whose memory others write, which
// it writes to as fast as it can itself. It learns of its peer on its standard
// input and ends with it.
func servePeer(t *testing.T) {
	n := startNode(t, defaultBackoff, Options{Dir: os.Getenv(peerDir)})
	e := n.endpoint(64 << 10)
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stderr)
	me := remote{Addr: n.addr, QPN: e.QPN(), RKey: e.region.RKey()}
	out.Encode(me)
	var peer remote
	if in.Decode(&peer) != nil {
		os.Exit(1)
	}
	e.connectTo(peer)
	me.Local = e.roce.ring != nil
	out.Encode(me)
	if in.Decode(&peer) != nil { // the other side is connected too
		os.Exit(1)
	}
	go func() {
		in.Decode(&peer)
		os.Exit(0)
	}()
	for {
		if e.writeTo(peer, len(e.buf)) {
			continue
		}
		var wc [64]ib.WC
		for e.cq.Poll(wc[:]) == 0 {
			n.eng.Poll()
			n.eng.Flush()
		}
	}
}

// connectTo is connect to a queue pair of another process.
func (e *endpoint) connectTo(r remote) {
	e.node.t.Helper()
	e.connectAt(r.QPN, r.Addr, 10, 2)
}

// writeTo is write to memory of another process.
func (e *endpoint) writeTo(r remote, n int) bool {
	e.Lock()
	w, ok := e.sq.Reserve()
	if !ok {
		e.Unlock()
		return false
	}
	w.Opcode, w.Flags, w.Length, w.RKey = ib.WRRDMAWrite, ib.SendSignaled, uint32(n), r.RKey
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.region.LKey()})
	e.sq.Commit()
	e.Ring()
	return true
}

// peerProcess is a running servePeer.
type peerProcess struct {
	cmd   *exec.Cmd
	in    *json.Encoder
	out   *json.Decoder
	ended sync.Once
}

func startPeer(t *testing.T, dir string) *peerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeerIsKilled$")
	cmd.Env = append(os.Environ(), peerDir+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peerProcess{cmd: cmd, in: json.NewEncoder(stdin), out: json.NewDecoder(stderr)}
	t.Cleanup(p.kill)
	return p
}

func (p *peerProcess) kill() {
	p.cmd.Process.Kill()
	p.ended.Do(func() { p.cmd.Wait() })
}

// TestPeerIsKilled kills a process in the middle of transfers both ways, again
// and again: work requests end with an error in bounded time, and the next
// process is served by rings as the first one was.
func TestPeerIsKilled(t *testing.T) {
	if os.Getenv(peerDir) != "" {
		servePeer(t)
	}
	rounds := 25
	if testing.Short() {
		rounds = 3
	}
	n := meet(t, Options{})[0]
	rings := 0
	for round := range rounds {
		p := startPeer(t, n.dir)
		var peer remote
		if err := p.out.Decode(&peer); err != nil {
			t.Fatal(err)
		}
		e := n.endpoint(64 << 10)
		me := remote{Addr: n.addr, QPN: e.QPN(), RKey: e.region.RKey()}
		p.in.Encode(me)
		p.out.Decode(&peer)
		e.connectTo(peer)
		p.in.Encode(me)
		if peer.Local && e.roce.ring != nil {
			rings++
		}
		kill := time.AfterFunc(time.Duration(round%7)*3*time.Millisecond, func() { p.cmd.Process.Kill() })
		deadline := time.Now().Add(patience)
		var wc [64]ib.WC
		for failed := false; !failed; {
			e.writeTo(peer, len(e.buf))
			n.eng.Poll()
			n.eng.Flush()
			for _, c := range wc[:e.cq.Poll(wc[:])] {
				failed = failed || c.Status != ib.WCSuccess
			}
			if time.Now().After(deadline) {
				t.Fatal("work requests to a process that was killed do not end")
			}
		}
		kill.Stop()
		p.kill()
		e.Close()
		until(t, "the rings have gone", func() bool {
			n.eng.local.mu.Lock()
			defer n.eng.local.mu.Unlock()
			return len(*n.eng.local.rings.Load()) == 0 && len(n.eng.local.ends) == 0
		})
	}
	if rings == 0 {
		t.Fatalf("none of %d processes was reached by rings", rounds)
	}
	t.Logf("%d of %d processes were reached by rings", rings, rounds)
}

const (
	strangerDir  = "VERBENA_ENGINE_STRANGER_DIR"
	strangerAddr = "VERBENA_ENGINE_STRANGER_ADDR"
)

// TestOtherNamespace has two processes that meet in one directory and have one
// address, each in its network namespace: they are no peers.
func TestOtherNamespace(t *testing.T) {
	if dir := os.Getenv(strangerDir); dir != "" {
		beStranger(t, dir, netip.MustParseAddr(os.Getenv(strangerAddr)))
		return
	}
	n := meet(t, Options{})[0]
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherNamespace$")
	cmd.Env = append(os.Environ(), strangerDir+"="+n.dir, strangerAddr+"="+n.addr.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		t.Skipf("needs CAP_SYS_ADMIN for a network namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	var peer remote
	if err := json.NewDecoder(stderr).Decode(&peer); err != nil {
		t.Fatal(err)
	}
	e := n.endpoint(64)
	defer e.Close()
	e.connectTo(peer)
	if o := e.roce.ring; o != nil && o.slot != n.eng.Slot() { // the stranger may have the number that is ours here
		t.Error("there is a ring to a process of another network namespace")
	}
	e.writeTo(peer, 8)
	if wc := e.await(); wc.Status != ib.WCRetryExcErr {
		t.Errorf("a WRITE to a process of another network namespace: %v", wc.Status)
	}
}

// beStranger is the other process, until its standard input ends.
func beStranger(t *testing.T, dir string, addr netip.Addr) {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := startNodeAt(t, defaultBackoff, Options{Dir: dir}, addr)
	e := n.endpoint(64)
	defer e.Close()
	json.NewEncoder(os.Stderr).Encode(remote{Addr: addr, QPN: e.QPN(), RKey: e.region.RKey()})
	io.Copy(io.Discard, os.Stdin)
}
