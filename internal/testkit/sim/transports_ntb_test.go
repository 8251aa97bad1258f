// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"math/rand/v2"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/ntb/window"
	wirentb "verbena/internal/wire/ntb"
)

// Two nodes whose windows hear of writes some time later, in order and bit by bit:
// with memory of their own, which the owner fills, and with memory in the window,
// which the peer does.
func init() {
	transports["NTB"] = func(w *pairWorld) { w.connectNTB(false) }
	transports["NTB, memory in the window"] = func(w *pairWorld) { w.connectNTB(true) }
}

const (
	ntbWindow = 1 << 20
	ntbMemory = 1 << 18
)

// ntbMachine is a queue pair with the node that it is on.
type ntbMachine struct {
	*rdma.QP
	node *rdma.Node
	own  *window.Window
}

func (m *ntbMachine) NextTimeout() monotime.Time      { return m.node.NextTimeout() }
func (m *ntbMachine) HandleTimeout(now monotime.Time) { m.node.HandleTimeout(now) }
func (m *ntbMachine) arrive(b []byte, now monotime.Time) {
	h, rest, _ := wirentb.ParseMessage(b)
	if h.Bytes > 0 && !channel.Take(m.own, h, rest[:h.Bytes]) {
		panic("sim: a write outside the window")
	}
	m.node.Handle(now)
}

func (w *pairWorld) connectNTB(inWindow bool) {
	w.net.Faults.Loss, w.net.Faults.Duplicate = 0, 0
	var at [2]monotime.Time
	for i, s := range w.sides {
		seeds := rand.New(rand.NewPCG(w.seed, uint64(7+i)))
		m := &ntbMachine{own: window.New(make([]byte, ntbWindow)), node: rdma.New(s.table, seeds.Uint64)}
		m.node.ReserveMemory(ntbWindow, ntbMemory)
		if inWindow {
			s.moveTo(m)
		}
		m.QP = m.node.NewQP(s.config(i))
		s.machine = m
		batch := channel.NewBatch()
		s.send = func() {
			for m.node.PollOutput(w.net.Now(), batch) {
				all, err := batch.AppendStream(nil)
				if err != nil {
					panic(err)
				}
				batch.Reset()
				for len(all) > 0 {
					h, _, _ := wirentb.ParseMessage(all)
					n := wirentb.MessageBytes + int(h.Bytes)
					piece := all[:n:n]
					all = all[n:]
					at[i] = max(at[i], w.net.Now().Add(monotime.Duration(1+seeds.IntN(5000))))
					w.net.At(at[i], func() {
						s.peer.machine.(*ntbMachine).arrive(piece, w.net.Now())
						s.peer.turn()
					})
				}
			}
		}
	}
	for i, s := range w.sides {
		m := s.machine.(*ntbMachine)
		m.node.Attach(0, m.own, ntbWindow)
		attr := pairAttr
		attr.DestQPN = ib.QPN(0x12 - i)
		for _, attr.State = range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
			m.Modify(0, &attr, pairMask)
		}
		w.net.At(1, s.turn)
	}
}

// moveTo has a side's memory in the window of its node.
func (s *side) moveTo(m *ntbMachine) {
	at, ok := m.node.TakeMemory(sideBytes)
	if !ok {
		panic("sim: no room in the window")
	}
	there, _ := m.own.Bytes(at, sideBytes)
	copy(there, s.bytes)
	if err := s.table.Deregister(s.mr); err != nil {
		panic(err)
	}
	s.bytes = there
	var err error
	if s.mr, err = s.table.Register(domain, s.bytes, virtual, targetAccess); err == nil {
		err = m.node.Expose(s.mr, rdma.Piece(at, sideBytes))
	}
	if err != nil {
		panic(err)
	}
}
