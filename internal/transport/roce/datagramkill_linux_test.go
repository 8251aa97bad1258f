// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/testkit/rig"
)

const datagramAddr = "VERBENA_ENGINE_DATAGRAM_ADDR"

// receiveDatagrams is the other process: it takes datagrams until its standard input ends.
func receiveDatagrams(t *testing.T) {
	n := startNodeAt(t, policy.Nap, how{Dir: os.Getenv(peerDir)},
		netip.MustParseAddr(os.Getenv(datagramAddr)))
	d := newDatagrams(n)
	for range receives {
		d.expect()
	}
	json.NewEncoder(os.Stderr).Encode(d.self())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		var wc [8]ib.WC
		for range d.CQ.Poll(wc[:]) {
			d.expect()
		}
		n.Eng.FirstLane().Poll()
		n.Eng.Flush()
	}
}

// A process that is stopped holds up no sender, before it takes a ring and afterwards, nor does one
// that is killed. The sender's work completes, and datagrams to others come.
func TestDatagramPeerIsStoppedAndKilled(t *testing.T) {
	if os.Getenv(peerDir) != "" {
		receiveDatagrams(t)
	}
	nodes := neighbours(t, how{}, how{})
	from, other := newDatagrams(nodes[0]), newDatagrams(nodes[1])
	ringed(t, from, other)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDatagramPeerIsStoppedAndKilled$")
	cmd.Env = append(os.Environ(), peerDir+"="+nodes[0].Dir, datagramAddr+"="+nodes[0].Addr.String())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peerProcess{cmd: cmd}
	t.Cleanup(p.kill)
	var peer remote
	if err := json.NewDecoder(stderr).Decode(&peer); err != nil {
		t.Fatal(err)
	}
	ends := ringsOf(nodes[0]).Ends()
	// byRing sends to both, and returns how many of the datagrams went by rings.
	byRing := func() uint64 {
		t.Helper()
		before := nodes[0].Counter("local_sent_pkts")
		other.expect()
		from.post(1, 64, peer, other.self())
		other.Want(ib.WCRecv, ib.WCSuccess)
		from.Want(ib.WCSend, ib.WCSuccess)
		from.Want(ib.WCSend, ib.WCSuccess)
		return nodes[0].Counter("local_sent_pkts") - before
	}

	p.pause(t)
	for range 100 {
		if n := byRing(); n != 1 {
			t.Fatalf("%d of two datagrams went by rings: one of the processes has taken none", n)
		}
	}
	if n := ringsOf(nodes[0]).Ends() - ends; n != 1 {
		t.Errorf("%d rings were offered to a process that is stopped, want 1", n)
	}
	p.cmd.Process.Signal(syscall.SIGCONT)
	rig.Until(t, "it takes the ring", func() bool { return byRing() == 2 })

	p.pause(t)
	for nodes[0].Counter("local_lost") == 0 {
		from.send(1, 1024, peer)
	}
	for range 100 {
		byRing()
	}
	p.cmd.Process.Signal(syscall.SIGCONT)
	rig.Until(t, "datagrams are lost no more", func() bool {
		lost := nodes[0].Counter("local_lost")
		return byRing() == 2 && nodes[0].Counter("local_lost") == lost
	})

	p.pause(t) // so that datagrams are on their way
	byRing()
	p.kill()
	rig.Until(t, "its ring has gone", func() bool {
		return byRing() == 1 && ringsOf(nodes[0]).Ends() == ends
	})
	for range 100 {
		byRing()
	}
}
