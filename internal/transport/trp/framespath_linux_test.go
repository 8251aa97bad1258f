// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bufio"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/netns"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
	"verbena/internal/transport/frames"
	"verbena/internal/transport/roce"
)

var nearAddr, farAddr = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")

// apart makes a wire to a second namespace, where nodes have sockets.
func apart(t *testing.T) (n, far *netns.Network, dir string) {
	t.Helper()
	xdpwire.Skip(t, "it makes frames itself, in make unit too")
	if n = netns.New(t); n == nil {
		return nil, nil, ""
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and a kernel with AF_XDP: %v", err)
	}
	unix.Close(fd)
	if dir, err = os.MkdirTemp("", "frames"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	far = n.Far()
	n.AddWire("xa", "xb")
	n.Move("xb", far)
	n.Add("xa", nearAddr.String()+"/24")
	far.Add("xb", farAddr.String()+"/24")
	_ = n.LinkSetUp(n.Link("xa"))       // it runs when the other end does
	far.Set("ipv4/icmp_ratelimit", "0") // two ports at once are told of
	far.Up("lo", "xb")
	n.Up("lo", "xa")
	return n, far, dir
}

// framedNode has frames of xa, whose keeper is the one of dir.
func framedNode(t testing.TB, dir string) *node {
	t.Helper()
	o := roce.Options{Dir: dir, NoLocal: true, Attach: xdp.Attach, Frames: []portshare.Interface{{Name: "xa", Queues: 1}}}
	n := trpNode(t, policy.Nap, engine.Options{Components: []func(*engine.Engine) (engine.Component, error){roce.Component(o)}})
	n.Addr = nearAddr
	return n
}

// farNode has sockets in far, and takes requests.
func farNode(t testing.TB, far *netns.Network) (n *node, at netip.AddrPort, requests chan *Request) {
	far.Do(func() {
		n = trpNode(t, policy.Nap, engine.Options{})
		n.Addr = farAddr
		var l *Listener
		l, requests = listen(n, farAddr, 0)
		at = l.Addr()
	})
	return n, at, requests
}

func framesOf(n *node) (c xsk.Counters) { return frames.Of(n.Eng).Counters() }

// meet connects a queue pair of far to the one that has dialled.
func meet(t testing.TB, n *node, far *netns.Network, requests chan *Request) (e *trpEnd) {
	r := next(t, requests)
	far.Do(func() {
		e = trpEndpoint(n, trpBytes)
		e.accept(r, "welcome")
	})
	e.wantLink(trp.EventEstablished, 0)
	return e
}

const (
	trpBytes   = 64 << 10
	trpVictim  = "VERBENA_TRP_VICTIM"
	trpVictims = 4
)

// victimHello is the first word of a victim.
type victimHello struct{ Sent, Received uint64 }

// acquainted connects a queue pair of this namespace with one of the other.
func acquainted(t *testing.T, far *netns.Network, dir string) (here, there *node, at netip.AddrPort, requests chan *Request, a, b *trpEnd) {
	t.Helper()
	here = framedNode(t, dir)
	there, at, requests = farNode(t, far)
	a = trpEndpoint(here, trpBytes)
	a.dial(nearAddr, at, "hello")
	b = meet(t, there, far, requests)
	a.wantLink(trp.EventEstablished, 0)
	return here, there, at, requests, a, b
}

// Processes are killed in the middle of messages by frames, again and again. ICMP tells their
// peers, the next one has frames, and a queue pair of another process works on by frames of the
// same pool.
func TestTRPProcessWithFramesIsKilled(t *testing.T) {
	if to := os.Getenv(trpVictim); to != "" {
		beVictim(t, netip.MustParseAddrPort(to), os.Getenv(trpVictim+"_DIR"))
		return
	}
	_, far, dir := apart(t)
	if far == nil {
		return
	}
	here, there, at, requests, a, b := acquainted(t, far, dir)
	var dead []*trpEnd
	for i := range trpVictims {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTRPProcessWithFramesIsKilled$")
		cmd.Env = append(os.Environ(), trpVictim+"="+at.String(), trpVictim+"_DIR="+dir)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peer := meet(t, there, far, requests)
		for range 8 {
			peer.Recv()
		}
		var hello victimHello
		err = json.NewDecoder(bufio.NewReader(out)).Decode(&hello)
		cmd.Process.Kill()
		cmd.Wait()
		if err != nil {
			t.Fatalf("victim %d: %v", i, err)
		}
		if hello.Sent == 0 || hello.Received == 0 {
			t.Fatalf("victim %d: %+v: its datagrams were to go by frames", i, hello)
		}
		peer.Send(8)
		dead = append(dead, peer)
		rig.Transfer(t, a.endpoint, b.endpoint, 20_000, byte(i))
		rig.Transfer(t, b.endpoint, a.endpoint, 20_000, byte(i))
	}
	for i, peer := range dead {
		begin := monotime.Now()
		for wc := peer.Await(); wc.Status == ib.WCSuccess; wc = peer.Await() {
		}
		if took := monotime.Now().Sub(begin); took > 10*monotime.Second {
			t.Errorf("the peer of victim %d found out after %v", i, took)
		}
	}
	if c := framesOf(here); c.Sent < trpVictims || c.Received < trpVictims*10 {
		t.Errorf("%+v: most datagrams were to go by frames", c)
	}
}

// beVictim sends messages until it is killed.
func beVictim(t *testing.T, to netip.AddrPort, dir string) {
	n := framedNode(t, dir)
	e := trpEndpoint(n, trpBytes)
	e.dial(nearAddr, to, "victim")
	e.wantLink(trp.EventEstablished, 0)
	told := false
	for until := monotime.Now().Add(30 * monotime.Second); monotime.Now() < until; {
		e.Send(trpBytes / 4)
		if e.Await().Status != ib.WCSuccess {
			t.Fatal("the peer does not take messages")
		}
		if c := framesOf(n); !told && c.Sent > 0 && c.Received > 0 {
			told = true
			json.NewEncoder(os.Stderr).Encode(victimHello{c.Sent, c.Received})
		}
	}
}

// ICMP's "port unreachable" reaches a queue pair whose datagrams go by frames: to a port that
// nobody has, and to one whose process has ended.
func TestTRPRefusedByFrames(t *testing.T) {
	_, far, dir := apart(t)
	if far == nil {
		return
	}
	here, _, _, _, a, b := acquainted(t, far, dir)
	rig.Until(t, "frames carry a message", func() bool {
		before := framesOf(here)
		rig.Transfer(t, a.endpoint, b.endpoint, 4096, 1)
		return framesOf(here).Sent > before.Sent
	})
	before := framesOf(here)
	b.vanish()
	begin := monotime.Now()
	a.Send(4096)
	c := trpEndpoint(here, 64)
	c.dial(nearAddr, netip.AddrPortFrom(farAddr, 9), "hello")
	if wc := a.Await(); wc.Status != ib.WCRetryExcErr {
		t.Errorf("%v, want %v", wc.Status, ib.WCRetryExcErr)
	}
	a.wantLink(trp.EventDisconnected, trp.Refused)
	c.wantLink(trp.EventUnreachable, trp.Refused)
	if framesOf(here).Sent == before.Sent {
		t.Error("the datagrams to the closed port did not go by frames")
	}
	if took := monotime.Now().Sub(begin); took > 10*monotime.Second {
		t.Errorf("both found out after %v", took)
	}
}
