// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Two real processes: this one, the client, writes, reads and adds in the memory
// of the other, the server, which writes into this one's memory all the time.

const (
	windowBytes = 1 << 20
	pd          = mem.PD(1)
	base        = uint64(0x10000)
	openBytes   = 1 << 18
	giftBytes   = 1 << 14
	guard       = 4096
	roleVar     = "VERBENA_BRIDGE_SERVER" // the endpoint of a process that is to be a server
	windowVar   = "VERBENA_BRIDGE_WINDOW" // set: open memory lies in the window; the peer writes there
)

// process is a node and its driver.
type process struct {
	back  *back
	open  func() (Link, error)
	link  Link
	node  *rdma.Node
	batch *channel.Batch
	table *mem.Table
	q     *rdma.QP
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	cq    *queue.CQ
	data  *fenced // the server's is open to the client
	gift  *fenced // the client's is open to the server
	peer  ib.QPN
	sleep time.Duration // at most, when there is nothing to do
	lost  int
}

// newProcess makes a process that opens its links at an endpoint. The memory that it opens to its
// peer lies in the window if the environment says so.
func newProcess(endpoint string, own, peer ib.QPN) (*process, error) {
	list, err := ParseEndpoints(endpoint)
	if err != nil {
		return nil, err
	}
	b, err := newBack(list[0])
	if err != nil {
		return nil, err
	}
	p := &process{back: b, open: b.open, batch: channel.NewBatch(), table: mem.NewTable(rand.Uint32),
		sq: queue.NewSendQueue(16, 2, 64), rq: queue.NewRecvQueue(16, 2), cq: queue.NewCQ(64), peer: peer, sleep: time.Minute}
	p.node = rdma.New(p.table, rand.Uint64)
	p.q = p.node.NewQP(qp.Config{QPN: own, PD: pd, Mem: p.table, SQ: p.sq, RQ: p.rq, SendCQ: p.cq, RecvCQ: p.cq, SignalAll: true})
	open, other := &p.data, &p.gift
	openSize, otherSize := openBytes, giftBytes
	if own == clientQPN {
		open, other = other, open
		openSize, otherSize = otherSize, openSize
	}
	if *other, err = newFenced(p.table, make([]byte, otherSize+2*guard), ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	memory := make([]byte, openSize+2*guard)
	inWindow := os.Getenv(windowVar) != ""
	var at uint64
	if inWindow {
		at, memory = b.memory(p.node, uint64(len(memory)))
	}
	if *open, err = newFenced(p.table, memory, ib.AccessLocalWrite|ib.AccessRemote); err == nil && inWindow {
		err = p.node.Expose((*open).Region, rdma.Piece(at+guard, uint64(openSize)))
	}
	return p, err
}

// back opens the links of a process.
type back struct {
	opener *Opener
	place  *Place
}

func newBack(e Endpoint) (b *back, err error) {
	b = &back{}
	if e.Kind == Shm {
		b.place, err = Join(PlaceConfig{Endpoint: e, Slot: 1, SessionBytes: windowBytes, MemoryBytes: windowBytes})
	} else {
		b.opener, err = NewOpener(e, windowBytes)
	}
	return b, err
}

// open opens a link to the process at the other end: one of two wants it.
func (b *back) open() (Link, error) {
	if b.place == nil {
		return b.opener.Open(10 * time.Millisecond)
	}
	if self := b.place.Self(); self.Side == 1 {
		b.place.Want(Member{0, self.Slot})
	}
	_, s, err := b.place.Next(10 * time.Millisecond)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b *back) close() {
	if b.place != nil {
		b.place.Close()
	} else {
		b.opener.Close()
	}
}

// memory returns n bytes of the application's part of the window.
func (b *back) memory(node *rdma.Node, n uint64) (at uint64, memory []byte) {
	if b.place == nil {
		node.ReserveMemory(windowBytes, n)
		at, _ = node.TakeMemory(n)
		memory, _ = b.opener.Own().Bytes(at, n)
		return at, memory
	}
	node.ReserveMemory(2*windowBytes, windowBytes)
	at, _ = node.TakeMemory(n)
	return at, b.place.Memory()[at-windowBytes:][:n]
}

// fenced is a region between two guards.
type fenced struct {
	*mem.Region
	all  []byte
	data []byte
}

func newFenced(table *mem.Table, all []byte, access ib.Access) (*fenced, error) {
	for at := 0; at < len(all); at += guard {
		copy(all[at:], untouched)
	}
	m := &fenced{all: all, data: all[guard : len(all)-guard]}
	var err error
	m.Region, err = table.Register(pd, m.data, base, access)
	return m, err
}

// untouched is the contents of memory that nothing has written to.
var untouched = bytes.Repeat([]byte{0xee}, guard)

func (m *fenced) guarded() bool {
	return bytes.Equal(m.all[:guard], untouched) && bytes.Equal(m.all[len(m.all)-guard:], untouched)
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

// turn handles all pending work, or waits a moment.
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
		p.unplug()
		return nil
	}
	return err
}

func (p *process) unplug() {
	p.node.Detach(monotime.Now())
	p.link.Close()
	if s, ok := p.link.(*Session); ok {
		s.Free()
	}
	p.link = nil
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

// flush carries out the node's writes.
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

// post posts a work request of n bytes of m.
func (p *process) post(w queue.SendWQE, m *fenced, at, n int) {
	s, _ := p.sq.Reserve()
	sge := s.SGE
	*s = w
	s.Length, s.SGE = uint32(n), append(sge, ib.SGE{Addr: base + uint64(at), Length: uint32(n), LKey: m.LKey()})
	p.sq.Commit()
	p.q.Doorbell(monotime.Now())
}

// tell sends the key of m, and is to hear of the peer's.
func (p *process) tell(m *fenced) {
	p.post(queue.SendWQE{Opcode: ib.WRSendWithImm, Imm: uint32(m.RKey())}, m, 0, 0)
}

func (p *process) await() {
	r, _ := p.rq.Reserve()
	r.WRID = 1
	p.rq.Commit()
}

// keyOf returns the key that the peer has told, 0 for other completions.
func keyOf(wc *ib.WC) ib.RKey {
	if wc.Status != ib.WCSuccess || wc.Opcode != ib.WCRecv {
		return 0
	}
	return ib.RKey(wc.ImmData)
}
