// SPDX-License-Identifier: BSD-2-Clause

package rig

import (
	"sync/atomic"
	"time"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Endpoint is a reliable queue pair with a buffer.
type Endpoint struct {
	*engine.Conn
	Node       *Node
	SQ         *queue.SendQueue
	RQ         *queue.RecvQueue
	CQ         *queue.CQ
	Buf        []byte
	Region     *mem.Region
	Event      chan struct{} // a token when the queue was armed and something completed
	Events     EventSet
	Extensions bool         // of iWARP
	Ended      atomic.Int32 // calls of OnClose
}

// EventSet collects asynchronous events.
type EventSet struct{ atomic.Uint64 }

// Put adds an event.
func (s *EventSet) Put(e ib.EventType) { s.Add(1 << e) }

// Has reports whether an event came.
func (s *EventSet) Has(e ib.EventType) bool { return s.Load()>>e&1 != 0 }

// Parts returns an endpoint without a queue pair.
func (n *Node) Parts(bytes int) *Endpoint {
	n.T.Helper()
	e := &Endpoint{Node: n, SQ: queue.NewSendQueue(64, 1, 0), RQ: queue.NewRecvQueue(64, 1),
		CQ: queue.NewCQ(1024), Buf: make([]byte, bytes), Event: make(chan struct{}, 1)}
	e.CQ.OnEvent = func() {
		select {
		case e.Event <- struct{}{}:
		default:
		}
	}
	var err error
	e.Region, err = n.Keys.Register(1, e.Buf, 0, ib.AccessLocalWrite|ib.AccessRemote)
	if err != nil {
		n.T.Fatal(err)
	}
	return e
}

// Config returns the configuration of e's machine.
func (e *Endpoint) Config(qpn ib.QPN) qp.Config {
	return qp.Config{QPN: qpn, PD: 1, Mem: e.Node.Keys, SQ: e.SQ, RQ: e.RQ, SendCQ: e.CQ,
		RecvCQ: e.CQ}
}

// OnClose counts the end of an iWARP stream.
func (e *Endpoint) OnClose() { e.Ended.Add(1) }

// CloseOnce closes the queue pair unless the test has.
func (e *Endpoint) CloseOnce() {
	e.Lock()
	gone := e.Closed()
	e.Unlock()
	if !gone {
		e.Close()
	}
}

// AnyState lets a modification through whatever the state is.
func AnyState(ib.QPState) error { return nil }

// ModifyTo modifies the state, and the other attributes of mask.
func (e *Endpoint) ModifyTo(a *ib.QPAttr, mask ib.QPAttrMask) error {
	return e.Modify(a, mask|ib.QPStateAttr, e.Node.Addr, AnyState)
}

// State returns the queue pair's state.
func (e *Endpoint) State() ib.QPState {
	e.Lock()
	defer e.Unlock()
	return e.Machine().State()
}

// Write posts a signaled RDMA WRITE of the first n bytes; false if the queue
// is full.
func (e *Endpoint) Write(peer *Endpoint, n int) bool {
	e.Lock()
	w, ok := e.SQ.Reserve()
	if !ok {
		e.Unlock()
		return false
	}
	w.Opcode, w.Flags, w.Length, w.RKey = ib.WRRDMAWrite, ib.SendSignaled, uint32(n),
		peer.Region.RKey()
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.Region.LKey()})
	e.SQ.Commit()
	e.SubmitUnlock(1)
	return true
}

// Send posts a signaled SEND of n bytes.
func (e *Endpoint) Send(n int) {
	e.Lock()
	w, _ := e.SQ.Reserve()
	w.Opcode, w.Flags, w.Length = ib.WRSend, ib.SendSignaled, uint32(n)
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.Region.LKey()})
	e.SQ.Commit()
	e.SubmitUnlock(1)
}

// Post posts one signaled work request of the first n bytes of both buffers.
func (e *Endpoint) Post(peer *Endpoint, op ib.WROpcode, n int) {
	e.Node.T.Helper()
	e.Lock()
	w, ok := e.SQ.Reserve()
	if !ok {
		e.Node.T.Fatal("the send queue is full")
	}
	w.Opcode, w.Flags, w.Length, w.RKey = op, ib.SendSignaled, uint32(n), peer.Region.RKey()
	w.CompareAdd = 5
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.Region.LKey()})
	e.SQ.Commit()
	e.SubmitUnlock(1)
}

// Request puts a signaled work request on the send queue. Its BindAddr is where in the
// buffer its bytes are.
func (e *Endpoint) Request(w queue.SendWQE) {
	e.Lock()
	p, ok := e.SQ.Reserve()
	if !ok {
		e.Node.T.Fatal("the send queue is full")
	}
	p.Opcode, p.Flags, p.Length = w.Opcode, w.Flags|ib.SendSignaled, w.Length
	p.RKey, p.RemoteAddr, p.InvalidateKey = w.RKey, w.RemoteAddr, w.InvalidateKey
	p.CompareAdd, p.Swap, p.Imm, p.WRID = w.CompareAdd, w.Swap, w.Imm, w.WRID
	if w.Length > 0 {
		p.SGE = append(p.SGE, ib.SGE{Addr: w.BindAddr, Length: w.Length, LKey: e.Region.LKey()})
	}
	e.SQ.Commit()
	e.SubmitUnlock(1)
}

// Recv posts a receive of all the buffer.
func (e *Endpoint) Recv() { e.RecvOf(len(e.Buf)) }

// RecvOf posts a receive of n bytes.
func (e *Endpoint) RecvOf(n int) {
	e.Lock()
	w, _ := e.RQ.Reserve()
	w.Length = uint32(n)
	w.SGE = append(w.SGE, ib.SGE{Length: w.Length, LKey: e.Region.LKey()})
	e.RQ.Commit()
	e.SubmitReceivesUnlock()
}

// Await waits for the next completion as CompChannel.Wait does, without
// polling the network.
func (e *Endpoint) Await() ib.WC {
	e.Node.T.Helper()
	return e.AwaitFor(Timeout)
}

// AwaitFor is Await with a bound of its own.
func (e *Endpoint) AwaitFor(most time.Duration) ib.WC {
	e.Node.T.Helper()
	deadline := time.After(most)
	var wc [1]ib.WC
	for {
		e.CQ.Arm(false)
		if e.CQ.Poll(wc[:]) == 1 {
			return wc[0]
		}
		e.Node.Eng.Wake()
		select {
		case <-e.Event:
		case <-deadline:
			e.Node.T.Fatal("no completion came")
		}
	}
}

// Want waits for the next completion and fails the test unless it is this.
func (e *Endpoint) Want(op ib.WCOpcode, status ib.WCStatus) ib.WC {
	e.Node.T.Helper()
	wc := e.Await()
	if wc.Status != status || status == ib.WCSuccess && wc.Opcode != op {
		e.Node.T.Fatalf("%v %v (%v), want %v %v", wc.Opcode, wc.Status, wc.VendorErr, op, status)
	}
	return wc
}

// PollBoth polls for a completion at a, on both sides, as both applications
// would.
func PollBoth(a, b *Endpoint) ib.WC {
	var wc [1]ib.WC
	for deadline := time.Now().Add(Timeout); time.Now().Before(deadline); {
		if a.CQ.Poll(wc[:]) == 1 {
			return wc[0]
		}
		for _, e := range []*Endpoint{b, a} {
			lane := e.Node.Eng.FirstLane()
			lane.Poll()
			lane.Flush()
		}
	}
	a.Node.T.Fatal("no completion came")
	return wc[0]
}

// FastKey returns a key of the first bytes that a peer may invalidate.
func (e *Endpoint) FastKey() ib.RKey {
	e.Node.T.Helper()
	r, err := e.Node.Keys.AllocFast(1, 1)
	if err == nil {
		_, err = r.Map([][]byte{e.Buf[:64]}, 0)
	}
	if err != nil {
		e.Node.T.Fatal(err)
	}
	if v := e.Node.Keys.FastRegister(1, r, r.RKey(),
		ib.AccessLocalWrite|ib.AccessRemote); v != ib.VendorNone {
		e.Node.T.Fatal(v)
	}
	return r.RKey()
}
