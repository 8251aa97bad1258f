// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"os"
	"strconv"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
)

// manyEndpoints returns queue pairs that share a completion queue and a buffer.
func manyEndpoints(t *testing.T, n *node, count int) []*endpoint {
	t.Helper()
	parts := n.Parts(64)
	cq := queue.NewCQ(8 * count)
	all := make([]*endpoint, count)
	for i := range all {
		e := &endpoint{Node: n, SQ: queue.NewSendQueue(8, 1, 0), RQ: queue.NewRecvQueue(1, 1), CQ: cq,
			Buf: parts.Buf, Region: parts.Region}
		var err error
		e.Conn, err = Of(n.Eng).NewConn(n.Counters,
			func(qpn ib.QPN) roce.Machine { return rc.New(e.Config(qpn)) }, func(ib.EventType) {},
			n.Eng.FirstLane())
		if err != nil {
			t.Fatal(err)
		}
		all[i] = e
	}
	return all
}

const manyQueuePairs = "VERBENA_ENGINE_QUEUE_PAIRS"

// TestManyQueuePairs has traffic on 2,000 queue pairs at once, or on as many as the variable says,
// through rings, sockets or frames. Each message arrives, none exceeds its retries, and no queue
// pair waits until all others are done.
func TestManyQueuePairs(t *testing.T) {
	const messages, depth = 12, 4
	pairs := 2000
	if s := os.Getenv(manyQueuePairs); s != "" {
		var err error
		if pairs, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	ways := []string{"rings", "sockets"}
	if xdpwire.Wanted() {
		ways = append(ways, "frames")
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			start := func() *node {
				if way == "frames" {
					return newNode(t, monotime.Millisecond)
				}
				return startNode(t, monotime.Millisecond, how{Dir: dir, NoLocal: way == "sockets"})
			}
			a, b := start(), start()
			from, to := manyEndpoints(t, a, pairs), manyEndpoints(t, b, pairs)
			index := map[ib.QPN]int{}
			for i, e := range from {
				// On a machine that others use, too, a turn over all of them takes long.
				const timeout, retries = 17, 7 // half a second each
				connectAt(e, to[i].QPN(), b.Addr, timeout, retries)
				connectAt(to[i], e.QPN(), a.Addr, timeout, retries)
				index[e.QPN()] = i
			}
			posted, done := make([]int, pairs), make([]int, pairs)
			post := func(i int) {
				for posted[i] < messages && posted[i]-done[i] < depth && from[i].Write(to[i], 64) {
					posted[i]++
				}
			}
			takeAll := func() {
				b.Eng.TakeArrived()
				a.Eng.TakeArrived()
			}
			for i := range from {
				// A ring has 512 frames. A queue pair whose packets found no room would wait for
				// its time-out, while others are done.
				if post(i); way == "frames" && i%16 == 0 {
					takeAll()
				}
			}
			var wcs [64]ib.WC
			left, first := pairs*messages, -1
			for end := time.Now().Add(rig.Timeout); left > 0; {
				if time.Now().After(end) {
					t.Fatalf("%d of %d messages are not acknowledged, for long", left, pairs*messages)
				}
				n := from[0].CQ.Poll(wcs[:])
				b.Eng.FirstLane().Poll()
				if way == "frames" {
					takeAll()
				} else if n == 0 {
					a.Eng.FirstLane().Poll()
				}
				if n > 0 {
					end = time.Now().Add(rig.Timeout)
				}
				for _, wc := range wcs[:n] {
					if wc.Status != ib.WCSuccess {
						t.Fatalf("queue pair %v: %v", wc.QPN, wc.Status)
					}
					i := index[wc.QPN]
					done[i]++
					left--
					post(i)
					if done[i] == messages && first < 0 {
						first = left
					}
				}
			}
			if most := pairs * (messages - 1); first > most {
				t.Errorf("a queue pair was done while the others had %d messages of %d left; the kernel dropped %d and %d frames",
					first, most, Of(a.Eng).seats.Counters().KernelDropped, Of(b.Eng).seats.Counters().KernelDropped)
			}
			for i := range from {
				from[i].Close()
				to[i].Close()
			}
		})
	}
}

// TestPace takes the tokens of the bucket, and those that a millisecond adds.
func TestPace(t *testing.T) {
	var p pace
	now := monotime.Time(monotime.Second)
	taken := func() (n int) {
		for p.take(now) {
			n++
		}
		return n
	}
	if n := taken(); n != paceBurst {
		t.Errorf("%d at once, want %d", n, paceBurst)
	}
	now = now.Add(monotime.Millisecond)
	if n := taken(); n != 16 {
		t.Errorf("%d after a millisecond, want 16", n)
	}
	now = now.Add(monotime.Second)
	if n := taken(); n != paceBurst {
		t.Errorf("%d after a second, want %d", n, paceBurst)
	}
}

// TestTimeoutsArePaced has a queue pair's time-out come when too many others have come: it is put
// off, and takes no retry.
func TestTimeoutsArePaced(t *testing.T) {
	n := startNode(t, monotime.Millisecond, how{Dir: t.TempDir(), NoLocal: true})
	e := newEndpoint(n, 64)
	connectAt(e, 0x123456, rig.NewAddr(), 14, 0) // nobody answers; the first time-out is the last
	c := connOf(e)
	e.Write(e, 64)
	e.Lock()
	defer e.CloseOnce()
	defer e.Unlock()
	for range 3 {
		due := c.acked.ACKTimer()
		if due == monotime.Never {
			t.Fatal("no acknowledgement is waited for")
		}
		due = due.Add(monotime.Second) // after the local ACK time-out
		c.roce.pace.tokens, c.roce.pace.filled = 0, due
		if c.BeforeTimeout(due); !due.Before(c.acked.ACKTimer()) {
			t.Fatal("the time-out was not put off")
		}
		c.packets.HandleTimeout(due)
	}
	if s := c.packets.State(); s != ib.QPRTS {
		t.Errorf("the queue pair is in state %v", s)
	}
	c.roce.pace.filled = 0
	due := c.acked.ACKTimer()
	if c.BeforeTimeout(due); c.acked.ACKTimer() != due {
		t.Error("a time-out was put off, though others are long ago")
	}
}
