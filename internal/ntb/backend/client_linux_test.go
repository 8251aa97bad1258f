// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/ntb/channel"
	"verbena/internal/queue"
)

// landing is the offset of READs' targets in the client's memory: behind the bytes that it writes,
// before the results of atomics.
const (
	landing  = openBytes / 2
	maxRound = landing - 8
)

// client is this process's side of the test.
type client struct {
	*process
	t     *testing.T
	rnd   *rand.Rand
	life  int           // which server is at the other end,
	told  int           // which was told of the gift last
	quiet bool          // it is not told, and writes nothing
	rkey  ib.RKey       // of its memory; 0: not connected
	far   []byte        // contents of its memory; nil: it is new
	at    int           // where in it the last WRITE went,
	n     int           // of so many bytes
	near  []byte        // contents of ours
	come  [2]int        // bytes of ours that a READ is to bring
	done  int           // rounds
	gone  func() bool   // the server is dead
	took  time.Duration // the longest wait for completions
}

func newClient(t *testing.T, where string, seed uint64) *client {
	p, err := newProcess(where, clientQPN, serverQPN)
	if err != nil {
		t.Fatal(err)
	}
	return &client{process: p, t: t, rnd: rand.New(rand.NewPCG(seed, 1)), near: bytes.Clone(p.data.data), gone: func() bool { return false }}
}

// patience bounds the time without an event: many times longer than the heartbeat takes to notice a
// dead peer, as the machine may be busy.
const patience = 60 * time.Second

func (c *client) turns(why string, until func() bool) {
	c.t.Helper()
	from := time.Now()
	for !until() {
		if err := c.turn(); err != nil {
			c.t.Fatal(err)
		}
		if time.Since(from) > patience {
			c.t.Fatalf("%s: nothing for %v; link %v, queue pair %v", why, patience, c.node.Channel().State(), c.q.State())
		}
	}
	c.took = max(c.took, time.Since(from))
}

// hello connects, again if need be, until the server has told its key; false if
// it died before.
func (c *client) hello() bool {
	for c.rkey == 0 {
		c.connect()
		c.await()
		c.turns("the server's key", func() bool { return c.cq.Len() > 0 || c.q.State() == ib.QPErr || c.gone() })
		var wc [1]ib.WC
		if c.cq.Poll(wc[:]) == 1 {
			c.rkey = keyOf(&wc[0])
		}
		if c.rkey == 0 && c.gone() {
			return false
		}
	}
	// Whatever an earlier server has written is written by now; this one has not
	// been told where to.
	copy(c.gift.data, bytes.Repeat(untouched, giftBytes/len(untouched)))
	if !c.quiet {
		c.told = c.life
		c.tell(c.gift)
	}
	if c.far == nil {
		c.far = bytes.Repeat(untouched, openBytes/len(untouched))
		return true
	}
	// The same server as before: nobody knows how much it has of the last request.
	before := bytes.Clone(c.far)
	for at := 0; at < openBytes; at += maxRound {
		n := min(maxRound, openBytes-at)
		if !c.read(at, n) {
			return true // the next round finds it out
		}
		copy(c.far[at:], c.near[landing:landing+n])
	}
	copy(before[c.at:c.at+c.n], c.far[c.at:])
	if !bytes.Equal(before[8:], c.far[8:]) {
		c.t.Fatalf("round %d: a WRITE of %d bytes at %d has changed others", c.done, c.n, c.at)
	}
	return true
}

// finish waits for all posted requests. It returns false if the connection has ended: their bytes
// may be there or not.
func (c *client) finish() bool {
	c.turns("completions", func() bool { return c.sq.Len() == 0 || c.q.State() == ib.QPErr })
	ok := c.q.State() != ib.QPErr
	var wc [8]ib.WC
	for k := c.cq.Poll(wc[:]); k > 0; k = c.cq.Poll(wc[:]) {
		for i := range wc[:k] {
			ok = ok && wc[i].Status == ib.WCSuccess
		}
	}
	if !ok {
		c.rkey = 0
	}
	copy(c.near[c.come[0]:c.come[1]], c.data.data[c.come[0]:])
	copy(c.near[openBytes-8:], c.data.data[openBytes-8:]) // an atomic's
	return ok
}

func (c *client) read(at, n int) bool {
	c.come = [2]int{landing, landing + n}
	c.post(queue.SendWQE{Opcode: ib.WRRDMARead, RKey: c.rkey, RemoteAddr: base + uint64(at), Flags: ib.SendFence}, c.data, landing, n)
	return c.finish()
}

// round writes, adds and reads back, anywhere; false if the connection did not
// live through it. All of both memories must be as it is to be.
func (c *client) round() bool {
	c.t.Helper()
	c.n = 1 + c.rnd.IntN([]int{64, 4096, maxRound}[c.rnd.IntN(3)])
	c.at = 8 + c.rnd.IntN(openBytes-8-c.n+1)
	for i := range c.near[:c.n] {
		c.near[i] = byte(c.rnd.Uint32())
	}
	copy(c.data.data, c.near[:c.n])
	c.post(queue.SendWQE{Opcode: ib.WRRDMAWrite, RKey: c.rkey, RemoteAddr: base + uint64(c.at)}, c.data, 0, c.n)
	c.post(queue.SendWQE{Opcode: ib.WRAtomicFetchAndAdd, RKey: c.rkey, RemoteAddr: base, CompareAdd: 1, Flags: ib.SendFence}, c.data, openBytes-8, 8)
	at, n := c.at, c.n
	if c.rnd.IntN(4) == 0 { // bytes that this round has not written, too
		n = 1 + c.rnd.IntN(maxRound)
		at = c.rnd.IntN(openBytes - n + 1)
	}
	ok := c.read(at, n)
	c.judge()
	if !ok {
		return false
	}
	copy(c.far[c.at:], c.near[:c.n])
	was, got := binary.NativeEndian.Uint64(c.far), binary.NativeEndian.Uint64(c.near[openBytes-8:])
	binary.NativeEndian.PutUint64(c.far, got+1)
	if got != was || !bytes.Equal(c.near[landing:landing+n], c.far[at:at+n]) {
		c.t.Fatalf("round %d: %d bytes at %d came back changed, or the counter is %d and not %d", c.done, n, at, got, was)
	}
	c.done++
	return true
}

// judge looks at our own memory.
func (c *client) judge() {
	c.t.Helper()
	if !c.data.guarded() || !c.gift.guarded() || !bytes.Equal(c.data.data[:landing], c.near[:landing]) {
		c.t.Fatalf("round %d: bytes that nobody may write have changed", c.done)
	}
	for i, b := range c.gift.data[8:] {
		if b != untouched[0] && b != giftByte(c.told, i+8) {
			c.t.Fatalf("round %d: byte %d is %#x, which server %d does not write", c.done, i+8, b, c.told)
		}
	}
}

// given returns how often this server has written here.
func (c *client) given() uint64 {
	if bytes.Equal(c.gift.data[:8], untouched[:8]) {
		return 0
	}
	return binary.NativeEndian.Uint64(c.gift.data)
}

const peerVar = "VERBENA_BRIDGE_PEER" // TestPeer's endpoint

// TestPeer works with a server that others start and kill, as guests do that
// share a PCI device.
func TestPeer(t *testing.T) {
	where := os.Getenv(peerVar)
	if where == "" {
		t.Skipf("%s names no server: set it to the address of one", peerVar)
	}
	c := newClient(t, where, 1)
	for from := time.Now(); c.done < 600; {
		if c.rkey == 0 {
			c.hello()
		}
		if !c.round() {
			c.far = nil // the next one is new
			fmt.Printf("lost the peer after %d rounds\n", c.done)
		} else if c.done%100 == 0 {
			fmt.Printf("%d rounds, %.1f s, the link came up %d times, %d writes came\n", c.done, time.Since(from).Seconds(),
				c.node.Channel().Count[channel.LinkUps], c.given())
		}
	}
}
