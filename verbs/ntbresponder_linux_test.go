// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/childproc"
	"verbena/verbs"
)

// responderEnv makes the test program the process at the other ends of links: it
// does as its parent asks it to.
const responderEnv = "VERBENA_TEST_RESPONDER"

func init() {
	if os.Getenv(responderEnv) != "" {
		serveResponder()
		os.Exit(0)
	}
}

// Responder is its devices.
type Responder struct{ ends map[string]*farEnd }

// farEnd is a device, memory of the process's and of the window's, and two queue
// pairs: one with receives of its own, one with shared ones.
type farEnd struct {
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qps [2]*verbs.QP
	srq *verbs.SRQ
	mrs [2]*verbs.MR
}

// Offer has the addresses and keys that a peer must know.
type Offer struct {
	QPN   [2]ib.QPN
	Addrs [2]uint64
	Keys  [2]ib.RKey
}

// On has the operands of most requests.
type On struct {
	Device string
	Which  int // of two queue pairs, or memories
	Off, N int
	ID     uint64
	QPN    ib.QPN
}

const farBytes = 1 << 20

// serveResponder serves until the parent is gone.
func serveResponder() {
	rpc.Register(&Responder{map[string]*farEnd{}})
	rpc.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
}

// Open opens a device.
func (r *Responder) Open(on On, o *Offer) (err error) {
	e := &farEnd{}
	r.ends[on.Device] = e
	if e.ctx, err = verbs.Open(on.Device); err != nil {
		return err
	}
	e.pd, e.cq = must(e.ctx.AllocPD()), must(e.ctx.CreateCQ(256, nil))
	e.srq = must(e.pd.CreateSRQ(ib.SRQAttr{MaxWR: 8, MaxSGE: 1}))
	window := must(e.ctx.AllocBuffer(farBytes))
	for i, b := range [][]byte{make([]byte, farBytes), window.Bytes()} {
		attr := verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 8, MaxSendSGE: 1, MaxRecvWR: 8, MaxRecvSGE: 1}}
		if i == 1 {
			attr.SRQ = e.srq
		}
		e.qps[i] = must(e.pd.CreateQP(&attr))
		e.mrs[i] = must(e.pd.RegMR(b, allAccess))
		o.QPN[i], o.Addrs[i], o.Keys[i] = e.qps[i].QPN(), e.mrs[i].Addr(), e.mrs[i].RKey()
	}
	return nil
}

// Connect brings a queue pair to RTS.
func (r *Responder) Connect(on On, _ *struct{}) error {
	q := r.ends[on.Device].qps[on.Which]
	return bringUp(q, on.QPN)
}

// bringUp brings a queue pair on a link to RTS.
func bringUp(q *verbs.QP, dest ib.QPN) error {
	a := ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: ib.AccessRemote}
	if err := q.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags); err != nil {
		return err
	}
	a = ib.QPAttr{State: ib.QPRTR, DestQPN: dest, PathMTU: ib.MTU4096, RQPSN: 77, MinRNRTimer: 1, MaxDestRdAtomic: 4, AH: ib.AHAttr{PortNum: 1}}
	if err := q.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPPathMTU|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer); err != nil {
		return err
	}
	a = ib.QPAttr{State: ib.QPRTS, SQPSN: 77, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 4}
	return q.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic)
}

// Recv posts a receive, a shared one for the second queue pair.
func (r *Responder) Recv(on On, _ *struct{}) error {
	e := r.ends[on.Device]
	wr := verbs.RecvWR{ID: on.ID, SGList: []ib.SGE{e.mrs[0].SGE(on.Off, on.N)}}
	if on.Which == 1 {
		_, err := e.srq.PostRecv(wr)
		return err
	}
	_, err := e.qps[0].PostRecv(wr)
	return err
}

// Poll returns the next completion.
func (r *Responder) Poll(on On, wc *ib.WC) error {
	e := r.ends[on.Device]
	for end := time.Now().Add(20 * time.Second); ; {
		var list [1]ib.WC
		if n, err := e.cq.Poll(list[:]); err != nil || n == 1 {
			*wc = list[0]
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: no completion in 20 s", on.Device)
		}
	}
}

// Bytes returns the bytes in memory. The peer's operations, which need no completion on this side,
// are behind it as the parent knows: the race detector does not.
//
//go:norace
func (r *Responder) Bytes(on On, b *[]byte) error {
	*b = make([]byte, on.N)
	for i, v := range r.ends[on.Device].mrs[on.Which].Bytes()[on.Off:][:on.N] {
		(*b)[i] = v
	}
	return nil
}

// Bind opens a part of the memory by a window of type 2, which the first queue pair
// binds.
func (r *Responder) Bind(on On, key *ib.RKey) error {
	e := r.ends[on.Device]
	mw, err := e.pd.AllocMW(ib.MWType2)
	if err != nil {
		return err
	}
	*key = mw.RKey()&^0xff | 5
	m := e.mrs[on.Which]
	_, err = e.qps[0].PostSend(verbs.SendWR{Opcode: ib.WRBindMW, Flags: ib.SendSignaled, Bind: &verbs.BindWR{MW: mw, MR: m, Addr: m.Addr() + uint64(on.Off), Length: uint64(on.N), Access: ib.AccessRemoteWrite, RKey: *key}})
	if err != nil {
		return err
	}
	var wc ib.WC
	if err = r.Poll(on, &wc); err == nil && wc.Status != ib.WCSuccess {
		err = fmt.Errorf("BIND_MW: %v", wc.Status)
	}
	return err
}

// Event returns the words of the next asynchronous event.
func (r *Responder) Event(on On, words *string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e, err := r.ends[on.Device].ctx.AsyncEvent(ctx)
	*words = e.Type.String()
	return err
}

// far is the other process.
type far struct {
	t   *testing.T
	cmd *exec.Cmd
	c   *rpc.Client
}

func startResponder(t *testing.T, links string) *far {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), responderEnv+"=1", "VERBENA_NTB="+links)
	in, out := childproc.Start(t, cmd)
	f := &far{t, cmd, rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})}
	t.Cleanup(func() {
		f.c.Close()
		cmd.Wait() // fails for the one that was killed
	})
	return f
}

// ask has the other process do something.
func ask[T any](t *testing.T, f *far, what string, on On) (answer T) {
	t.Helper()
	check(t, f.c.Call("Responder."+what, on, &answer))
	return answer
}
