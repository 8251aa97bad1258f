// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/testkit/rig"
)

const peerDir = "VERBENA_ENGINE_PEER_DIR"

// The writes of a process to the other: from where, to where, and with which bytes. No other byte
// of the other's memory may change.
const (
	killBytes  = 64 << 10
	sourceAt   = 4 << 10
	targetAt   = 36 << 10
	grantBytes = 24 << 10
)

func sourceByte(process, i int) byte { return byte(process*37 + i*11 + i>>8 | 1) }

// grant fills the source.
func grant(e *endpoint, process int) {
	for i := range e.Buf[sourceAt : sourceAt+grantBytes] {
		e.Buf[sourceAt+i] = sourceByte(process, i)
	}
}

// judge looks for bytes that nobody may have written.
func judge(e *endpoint, own, peer int) {
	e.Node.T.Helper()
	e.Lock()
	defer e.Unlock()
	for at, b := range e.Buf {
		var want byte
		switch {
		case at >= sourceAt && at < sourceAt+grantBytes:
			want = sourceByte(own, at-sourceAt)
		case at >= targetAt && at < targetAt+grantBytes && b != 0:
			want = sourceByte(peer, at-targetAt)
		}
		if b != want {
			e.Node.T.Fatalf("byte %d is %#x, want %#x", at, b, want)
		}
	}
}

const (
	survivor = 1 // processes, by number
	victim   = 2
)

// servePeer is the other process: a queue pair whose memory others write, which
// it writes to as fast as it can itself. It learns of its peer on its standard
// input and ends with it.
func servePeer(t *testing.T) {
	o, addr, framed := victimHow(t, os.Getenv(peerDir))
	if !framed {
		o, addr = how{Dir: os.Getenv(peerDir)}, rig.NewAddr()
	}
	n := startNodeAt(t, policy.Nap, o, addr)
	e := newEndpoint(n, killBytes)
	grant(e, victim)
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stderr)
	me := remote{Addr: n.Addr, QPN: e.QPN(), RKey: e.Region.RKey()}
	out.Encode(me)
	var peer remote
	if in.Decode(&peer) != nil {
		os.Exit(1)
	}
	connectTo(e, peer)
	me.Local = connOf(e).ring != nil
	out.Encode(me)
	if in.Decode(&peer) != nil { // the other side is connected too
		os.Exit(1)
	}
	go func() {
		in.Decode(&peer)
		os.Exit(0)
	}()
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for {
		if writeTo(e, peer, rnd) {
			continue
		}
		var wc [64]ib.WC
		for e.CQ.Poll(wc[:]) == 0 {
			n.Eng.FirstLane().Poll()
			n.Eng.Flush()
		}
		if rnd.IntN(8) == 0 {
			judge(e, victim, survivor)
		}
	}
}

// connectTo is connect to a queue pair of another process.
func connectTo(e *endpoint, r remote) {
	e.Node.T.Helper()
	connectAt(e, r.QPN, r.Addr, 10, 2)
}

// writeTo writes any part of the source to the target of another process.
func writeTo(e *endpoint, r remote, rnd *rand.Rand) bool {
	e.Lock()
	w, ok := e.SQ.Reserve()
	if !ok {
		e.Unlock()
		return false
	}
	n := 1 + rnd.IntN([]int{64, grantBytes}[rnd.IntN(2)])
	at := rnd.IntN(grantBytes - n + 1)
	w.Opcode, w.Flags, w.Length, w.RKey, w.RemoteAddr = ib.WRRDMAWrite, ib.SendSignaled, uint32(n), r.RKey, uint64(targetAt+at)
	w.SGE = append(w.SGE, ib.SGE{Addr: uint64(sourceAt + at), Length: uint32(n), LKey: e.Region.LKey()})
	e.SQ.Commit()
	e.SubmitUnlock(1)
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
	return startAgain(t, "TestPeerIsKilled", peerDir+"="+dir)
}

// startAgain runs a test in a process of its own, with more variables.
func startAgain(t *testing.T, test string, variables ...string) *peerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout = t.Output()
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

const (
	killSeed = "VERBENA_ENGINE_KILL_SEED"
	kills    = 200
)

// TestPeerIsKilled kills a process with SIGKILL at any moment, in its start as in the middle of
// transfers both ways, again and again. Work requests end with an error in bounded time, and no
// byte changes that was not granted. The next process is served by rings as the first one was.
func TestPeerIsKilled(t *testing.T) {
	if os.Getenv(peerDir) != "" {
		servePeer(t)
	}
	rounds := kills
	switch {
	case testing.Short():
		rounds = 6
		t.Logf("%d of %d kills, as -short wants it", rounds, kills)
	case raceDetector:
		rounds = 40
		t.Logf("%d of %d kills: with the race detector processes take long to start", rounds, kills)
	}
	seed := rand.Uint64()
	if s := os.Getenv(killSeed); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	round := 0
	defer func() {
		if t.Failed() {
			t.Logf("round %d; the moments were those of %s=%d", round, killSeed, seed)
		}
	}()
	n := meet(t, how{})[0]
	connected, rings := 0, 0
	for ; round < rounds; round++ {
		p := startPeer(t, n.Dir)
		kill := func(within time.Duration) {
			time.AfterFunc(time.Duration(rnd.Int64N(int64(within))), func() { p.cmd.Process.Kill() })
		}
		early := round%2 == 1
		if early {
			kill(60 * time.Millisecond) // a start takes half of it, on an idle machine
		}
		e := newEndpoint(n, killBytes)
		grant(e, survivor)
		peer, err := p.meet(e)
		switch {
		case err == nil:
			if connected++; peer.Local && connOf(e).ring != nil {
				rings++
			}
			if !early {
				kill(20 * time.Millisecond)
			}
			writeUntilError(e, peer, rnd)
		case !early:
			t.Fatal(err)
		}
		judge(e, survivor, victim)
		p.kill()
		e.Close()
		rig.Until(t, "the rings have gone", func() bool {
			return ringsOf(n).Reading() == 0 && ringsOf(n).Ends() == 0
		})
	}
	if rings < rounds/4 {
		t.Fatalf("%d of %d processes were reached by rings", rings, rounds)
	}
	t.Logf("%d kills, %d of the %d processes that got so far were reached by rings", rounds, rings, connected)
}

// meet connects e to the process, or finds it dead.
func (p *peerProcess) meet(e *endpoint) (peer remote, err error) {
	if err = p.out.Decode(&peer); err != nil {
		return peer, err
	}
	me := remote{Addr: e.Node.Addr, QPN: e.QPN(), RKey: e.Region.RKey()}
	if err = p.in.Encode(me); err != nil {
		return peer, err
	}
	if err = p.out.Decode(&peer); err != nil {
		return peer, err
	}
	connectTo(e, peer)
	return peer, p.in.Encode(me)
}

// writeUntilError writes until a work request does not succeed.
func writeUntilError(e *endpoint, peer remote, rnd *rand.Rand) {
	t := e.Node.T
	t.Helper()
	deadline := time.Now().Add(rig.Timeout)
	var wc [64]ib.WC
	for {
		writeTo(e, peer, rnd)
		e.Node.Eng.FirstLane().Poll()
		e.Node.Eng.Flush()
		for _, c := range wc[:e.CQ.Poll(wc[:])] {
			if c.Status != ib.WCSuccess {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("work requests to a process that was killed do not end")
		}
	}
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
	n := meet(t, how{})[0]
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherNamespace$")
	cmd.Env = append(os.Environ(), strangerDir+"="+n.Dir, strangerAddr+"="+n.Addr.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	cmd.Stdout = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		t.Skipf("a network namespace needs CAP_SYS_ADMIN: run as root: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	var peer remote
	if err := json.NewDecoder(stderr).Decode(&peer); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(n, killBytes)
	defer e.Close()
	connectTo(e, peer)
	if o := connOf(e).ring; o != nil && o.Slot() != n.Eng.Slot() { // the stranger may have the number that is ours here
		t.Error("there is a ring to a process of another network namespace")
	}
	writeTo(e, peer, rand.New(rand.NewPCG(1, 1)))
	if wc := e.Await(); wc.Status != ib.WCRetryExcErr {
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
	n := startNodeAt(t, policy.Nap, how{Dir: dir}, addr)
	e := newEndpoint(n, 64)
	defer e.Close()
	json.NewEncoder(os.Stderr).Encode(remote{Addr: addr, QPN: e.QPN(), RKey: e.Region.RKey()})
	io.Copy(io.Discard, os.Stdin)
}
