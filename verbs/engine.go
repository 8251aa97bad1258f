// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"io"

	"verbena/ib"
	"verbena/internal/backdoor"
	"verbena/internal/engine"
	"verbena/internal/queue"
)

func init() {
	backdoor.Engine = func(c any) *engine.Engine { return c.(*Context).eng }
	backdoor.CaptureTo = func(open func() (io.WriteCloser, error)) any { return withCaptureTo(open) }
	backdoor.NTB = func(c any) *engine.NTB {
		if l := c.(*Context).ntb; l != nil {
			return l.NTB
		}
		return nil
	}
	backdoor.CreateCQ = func(c any, r *queue.Ring, slots []ib.WC, depth int, notify func()) (any, error) {
		return c.(*Context).createCQIn(r, slots, depth, notify)
	}
	backdoor.ResizeCQ = func(q any, depth int, slots []ib.WC) error { return q.(*CQ).resizeIn(depth, slots) }
	backdoor.ConnectStream = func(q any, s *engine.Stream, p engine.Connected) error { return q.(*QP).connectStream(s, p) }
	backdoor.TRPConn = func(q any) (*engine.Conn, error) { return q.(*QP).trpConn() }
	backdoor.DisconnectStream = func(q any) error { return q.(*QP).disconnectStream() }
	backdoor.PosterOf = func(q any) any { return poster{q.(*QP)} }
	backdoor.NumberedQP = func(c any, n ib.QPN) any {
		q, _ := c.(*Context).host.numbered.Load(n)
		return q
	}
	backdoor.Arrived = func(q any) func() bool { return q.(*QP).arrived() }
	backdoor.OutsideReceives = func(a any, q *queue.OutsideRecvQueue) { a.(*QPInitAttr).outside = q }
	backdoor.CreateSRQ = createOutsideSRQ
	backdoor.ModifySRQ = func(s any, a ib.SRQAttr, mask ib.SRQAttrMask, slots []ib.SGE) error {
		return s.(*SRQ).modify(a, mask, func(n int) error { return s.(*SRQ).ring.ResizeIn(n, slots) })
	}
}

// poster is a queue pair as backdoor.Poster.
type poster struct{ qp *QP }

var _ backdoor.Poster[SendWR] = poster{}

func (p poster) BeginSend() error      { return p.qp.beginSend() }
func (p poster) Send(wr *SendWR) error { return p.qp.push(wr) }
func (p poster) Ring()                 { p.qp.conn.Ring() }
func (p poster) ReceivesTold()         { p.qp.receivesTold() }
