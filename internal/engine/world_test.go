// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
)

// patience is how long a test waits for what must come: much longer than it
// takes, as it only ends tests that fail.
const patience = 20 * time.Second

// node is an engine with an address of its own, alone on it.
type node struct {
	t       testing.TB
	eng     *Engine
	addr    netip.Addr
	dir     string // where it meets others
	keys    *mem.Table
	account *Account
}

var nodes atomic.Uint32

// newNode starts an engine on an address of 127.64.0.0/10 that no other test
// process is likely to use.
func newNode(t testing.TB, backoff monotime.Duration) *node {
	t.Helper()
	return startNode(t, backoff, Options{Solo: true})
}

func startNode(t testing.TB, backoff monotime.Duration, o Options) *node {
	t.Helper()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|1<<22|uint32(os.Getpid())<<6&(1<<22-1)|nodes.Add(1)&63)
	return startNodeAt(t, backoff, o, netip.AddrFrom4(a))
}

func startNodeAt(t testing.TB, backoff monotime.Duration, o Options, addr netip.Addr) *node {
	t.Helper()
	eng, err := newEngine(o, backoff)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint32(1)
	n := &node{t: t, eng: eng, addr: addr, account: NewAccount(roce.CounterNames()), keys: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })}
	t.Cleanup(func() { eng.Close() })
	if err := eng.Listen(n.addr); err != nil {
		t.Fatal(err)
	}
	return n
}

// endpoint is a reliable queue pair with a buffer, without the verbs around.
type endpoint struct {
	*Conn
	node   *node
	sq     *queue.SendQueue
	rq     *queue.RecvQueue
	cq     *queue.CQ
	buf    []byte
	region *mem.Region
	event  chan struct{} // a token when the queue was armed and something completed

	// of iWARP
	extensions bool
	events     eventSet
	ended      atomic.Int32 // calls of OnClose
}

func (e *endpoint) onClose() { e.ended.Add(1) }

// parts is an endpoint without a queue pair.
func (n *node) parts(bytes int) *endpoint {
	n.t.Helper()
	e := &endpoint{node: n, sq: queue.NewSendQueue(64, 1, 0), rq: queue.NewRecvQueue(64, 1), cq: queue.NewCQ(1024), buf: make([]byte, bytes), event: make(chan struct{}, 1)}
	e.cq.OnEvent = func() {
		select {
		case e.event <- struct{}{}:
		default:
		}
	}
	var err error
	e.region, err = n.keys.Register(1, e.buf, 0, ib.AccessLocalWrite|ib.AccessRemote)
	if err != nil {
		n.t.Fatal(err)
	}
	return e
}

func (n *node) endpoint(bytes int) *endpoint {
	n.t.Helper()
	e := n.parts(bytes)
	var err error
	e.Conn, err = n.eng.NewConn(n.account, func(qpn ib.QPN) roce.Machine {
		return rc.New(roce.Config{QPN: qpn, PD: 1, Mem: n.keys, SQ: e.sq, RQ: e.rq, SendCQ: e.cq, RecvCQ: e.cq})
	}, func(ib.EventType) {})
	if err != nil {
		n.t.Fatal(err)
	}
	return e
}

// any lets a modification through whatever the state is.
func anyState(ib.QPState) error { return nil }

func (e *endpoint) modify(a *ib.QPAttr, mask ib.QPAttrMask) error {
	return e.Modify(a, mask|ib.QPStateAttr, e.node.addr, anyState)
}

// connect takes e to RTS with a peer, which need not be connected yet.
func (e *endpoint) connect(peer *endpoint) {
	e.node.t.Helper()
	e.connectAt(peer.QPN(), peer.node.addr, 14, 7)
}

func (e *endpoint) connectAt(qpn ib.QPN, addr netip.Addr, timeout, retries uint8) {
	e.node.t.Helper()
	for _, s := range []struct {
		a    ib.QPAttr
		mask ib.QPAttrMask
	}{
		{ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags},
		{ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: qpn, RQPSN: 5, MaxDestRdAtomic: 4, MinRNRTimer: 1,
			AH: ib.AHAttr{GRH: ib.GRH{DGID: ib.GIDFromAddr(addr)}}}, ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer},
		{ib.QPAttr{State: ib.QPRTS, SQPSN: 5, Timeout: timeout, RetryCnt: retries, RNRRetry: 7, MaxRdAtomic: 4},
			ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic},
	} {
		if err := e.modify(&s.a, s.mask); err != nil {
			e.node.t.Fatal(err)
		}
	}
}

func pair(t testing.TB, backoff monotime.Duration, bytes int) (a, b *endpoint) {
	t.Helper()
	a, b = newNode(t, backoff).endpoint(bytes), newNode(t, backoff).endpoint(bytes)
	a.connect(b)
	b.connect(a)
	t.Cleanup(func() {
		for _, e := range []*endpoint{a, b} {
			if !e.closed {
				e.Close()
			}
		}
	})
	return a, b
}

// write posts a signaled RDMA WRITE of the first n bytes; false if the queue
// is full.
func (e *endpoint) write(peer *endpoint, n int) bool {
	e.Lock()
	w, ok := e.sq.Reserve()
	if !ok {
		e.Unlock()
		return false
	}
	w.Opcode, w.Flags, w.Length, w.RKey = ib.WRRDMAWrite, ib.SendSignaled, uint32(n), peer.region.RKey()
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.region.LKey()})
	e.sq.Commit()
	e.Ring()
	return true
}

// send posts a signaled SEND of n bytes, recv a receive of all the buffer.
func (e *endpoint) send(n int) {
	e.Lock()
	w, _ := e.sq.Reserve()
	w.Opcode, w.Flags, w.Length = ib.WRSend, ib.SendSignaled, uint32(n)
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.region.LKey()})
	e.sq.Commit()
	e.Ring()
}

func (e *endpoint) recv() {
	e.Lock()
	w, _ := e.rq.Reserve()
	w.Length = uint32(len(e.buf))
	w.SGE = append(w.SGE, ib.SGE{Length: w.Length, LKey: e.region.LKey()})
	e.rq.Commit()
	e.Ring()
}

// await waits for the next completion as CompChannel.Wait does, without
// polling the network.
func (e *endpoint) await() ib.WC {
	e.node.t.Helper()
	deadline := time.After(patience)
	var wc [1]ib.WC
	for {
		e.cq.Arm(false)
		if e.cq.Poll(wc[:]) == 1 {
			return wc[0]
		}
		e.node.eng.Wake()
		select {
		case <-e.event:
		case <-deadline:
			e.node.t.Fatal("no completion came")
		}
	}
}

// counter returns one of an engine's counters.
func (n *node) counter(name string) uint64 {
	n.t.Helper()
	for _, c := range n.eng.Counters(n.account) {
		if c.Name == name {
			return c.Value
		}
	}
	n.t.Fatalf("no counter %q", name)
	return 0
}

// until waits for what another thread brings about.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
}
