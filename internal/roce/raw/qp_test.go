// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/roce"
)

// rig is a queue pair in RTS with a buffer.
type rig struct {
	t   *testing.T
	q   *QP
	sq  *queue.SendQueue
	rq  *queue.RecvQueue
	cq  *queue.CQ
	buf []byte
	mr  *mem.Region
}

func newRig(t *testing.T) *rig {
	seed := uint32(1)
	table := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	r := &rig{t: t, sq: queue.NewSendQueue(16, 2, 64), rq: queue.NewRecvQueue(16, 2), cq: queue.NewCQ(64), buf: make([]byte, 4096)}
	var err error
	if r.mr, err = table.Register(1, r.buf, 0, ib.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	r.q = New(roce.Config{QPN: 7, PD: 1, Mem: table, SQ: r.sq, RQ: r.rq, SendCQ: r.cq, RecvCQ: r.cq}, 1518)
	for s := ib.QPInit; s <= ib.QPRTS; s++ {
		r.to(s)
	}
	return r
}

func (r *rig) to(s ib.QPState) { r.q.Modify(0, &ib.QPAttr{State: s}, ib.QPStateAttr) }

func (r *rig) recv(off, n uint32) {
	w, _ := r.rq.Reserve()
	w.SGE, w.Length = append(w.SGE, ib.SGE{Addr: uint64(off), Length: n, LKey: r.mr.LKey()}), n
	r.rq.Commit()
}

func (r *rig) want(why string, s ib.WCStatus, n uint32) {
	r.t.Helper()
	var wc [1]ib.WC
	if r.cq.Poll(wc[:]) != 1 || wc[0].Status != s || wc[0].ByteLen != n {
		r.t.Errorf("%s: %+v", why, wc[0])
	}
}

// A frame that cannot be received is dropped, and the next one takes the receive.
func TestReceive(t *testing.T) {
	r := newRig(t)
	r.q.HandleFrame(0, bytes.Repeat([]byte{1}, 60), 0)
	r.recv(0, 100)
	r.q.HandleFrame(0, bytes.Repeat([]byte{2}, 101), 0)
	r.q.HandleFrame(0, bytes.Repeat([]byte{3}, 100), 0)
	r.want("the frame that fits", ib.WCSuccess, 100)
	if !bytes.Equal(r.buf[:101], append(bytes.Repeat([]byte{3}, 100), 0)) {
		t.Errorf("%x", r.buf[:101])
	}
	r.recv(4090, 100)
	r.q.HandleFrame(0, bytes.Repeat([]byte{4}, 60), 0)
	r.want("memory that is not registered", ib.WCLocProtErr, 0)
	if r.q.State() != ib.QPErr {
		t.Error(r.q.State())
	}
	r.to(ib.QPReset)
	r.q.HandleFrame(0, bytes.Repeat([]byte{5}, 60), 0)
	c := r.q.Counters()
	for n, want := range map[roce.Counter]uint64{roce.DroppedNoRecv: 1, roce.DroppedMessage: 1, roce.DroppedState: 1, roce.RcvdMessages: 1, roce.RcvdPackets: 5} {
		if c[n] != want {
			t.Errorf("counter %d is %d, want %d", n, c[n], want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	r := newRig(t)
	frame, out := make([]byte, 60), make([]byte, 2048)
	if n := testing.AllocsPerRun(100, func() {
		r.recv(0, 100)
		w, _ := r.sq.Reserve()
		w.Opcode, w.Length, w.Flags, w.SGE = ib.WRSend, 60, ib.SendSignaled, append(w.SGE, ib.SGE{Length: 60, LKey: r.mr.LKey()})
		r.sq.Commit()
		n, ok := r.q.PollFrame(0, out)
		if !ok || n != 60 {
			panic("nothing is sent")
		}
		r.q.HandleFrame(0, frame, 0)
		var wc [4]ib.WC
		if r.cq.Poll(wc[:]) != 2 {
			panic("completions missing")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
