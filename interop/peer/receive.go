// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"fmt"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// receiver takes one message of the client, late unless it is ready before: a message then meets a
// receiver that is not ready. The memory is also behind a window of type 2, for the client to
// invalidate.
type receiver struct {
	ready bool // before it accepts
	// windowless has no window.
	windowless bool
	delay      time.Duration
	cq         *verbs.CQ
	window     *verbs.MW
	key        ib.RKey
}

// prepare makes the window and returns the key that it will have.
func (r *receiver) prepare(pd *verbs.PD, cq *verbs.CQ) (key ib.RKey, err error) {
	if r.cq = cq; r.windowless {
		return 0, nil
	}
	if r.window, err = pd.AllocMW(ib.MWType2); err != nil {
		return 0, err
	}
	r.key = r.window.RKey().Next()
	return r.key, nil
}

func (r *receiver) post(qp *verbs.QP, m memory) error {
	_, err := qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{m.mr.SGE(0, m.length)}})
	return err
}

// receive takes the message, behind the window if there is to be one, and prints its fields.
func (r *receiver) receive(ctx context.Context, qp *verbs.QP, m memory) error {
	if !r.windowless {
		if err := r.bind(ctx, qp, m); err != nil {
			return err
		}
	}
	if !r.ready {
		time.Sleep(r.delay) // this is the test: the sender finds no receive posted
		if err := r.post(qp, m); err != nil {
			return err
		}
	}
	wc, err := poll(ctx, r.cq)
	if err != nil {
		return err
	}
	imm, invalidated := uint32(0), 0
	if wc.Flags&ib.WCWithImm != 0 {
		imm = wc.ImmData
	}
	if wc.Flags&ib.WCWithInv != 0 && wc.InvalidatedRKey == r.key {
		invalidated = 1
	}
	fmt.Printf("received %v opcode %d bytes %d imm %08x invalidated %d\n", wc.Status, wc.Opcode,
		wc.ByteLen, imm, invalidated)
	return wc.Err()
}

func (r *receiver) bind(ctx context.Context, qp *verbs.QP, m memory) error {
	bind := &verbs.BindWR{MW: r.window, MR: m.mr, Addr: m.mr.Addr(), Length: uint64(m.length),
		Access: ib.AccessRemoteWrite | ib.AccessRemoteRead, RKey: r.key}
	if _, err := qp.PostSend(verbs.SendWR{Opcode: ib.WRBindMW, Flags: ib.SendSignaled,
		Bind: bind}); err != nil {
		return err
	}
	if wc, err := poll(ctx, r.cq); err != nil || wc.Err() != nil {
		return fmt.Errorf("binding the window: %v, %v", wc.Status, err)
	}
	return nil
}
