// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/testkit/oracle"
)

// An item is one work request of an endpoint's plan.
type item struct {
	wr     oracle.WR
	flags  ib.SendFlags
	sge    []ib.SGE
	result piece // READ, atomics: where the answer goes
	target piece // WRITE, ATOMIC WRITE: the memory written
	to     *endpoint
	expect oracle.Outcome
}

// consumes reports whether the item takes a receive of the peer.
func (i *item) consumes() bool {
	switch i.wr.Opcode {
	case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWriteWithImm:
		return true
	}
	return false
}

// weights of the operations of each service.
var mixes = map[ib.QPType][]struct {
	op     ib.WROpcode
	weight int
}{
	ib.QPTypeRC: {
		{ib.WRSend, 20}, {ib.WRSendWithImm, 8}, {ib.WRRDMAWrite, 25}, {ib.WRRDMAWriteWithImm, 8},
		{ib.WRRDMARead, 15}, {ib.WRAtomicCmpAndSwp, 6}, {ib.WRAtomicFetchAndAdd, 8},
		{ib.WRAtomicWrite, 5}, {ib.WRFlush, 5},
	},
	ib.QPTypeUC: {{ib.WRSend, 20}, {ib.WRSendWithImm, 10}, {ib.WRRDMAWrite, 20},
		{ib.WRRDMAWriteWithImm, 10}},
	ib.QPTypeUD: {{ib.WRSend, 20}, {ib.WRSendWithImm, 10}},
}

func (w *world) pick(t ib.QPType) ib.WROpcode {
	if t == ib.QPTypeXRCSend { // has all that RC has
		t = ib.QPTypeRC
	}
	total := 0
	for _, m := range mixes[t] {
		total += m.weight
	}
	at := w.rnd(total)
	for _, m := range mixes[t] {
		if at -= m.weight; at < 0 {
			return m.op
		}
	}
	return ib.WRSend
}

// plan makes up to n work requests for e. The memory they use is taken from
// both ends; planning stops when one is used up.
func (e *endpoint) makePlan(n int) {
	w := e.world
	for range n {
		it, ok := e.makeItem(w.pick(e.typ))
		if !ok {
			break
		}
		it.wr.ID = uint64(len(e.plan) + 1)
		if w.rnd(10) < 7 {
			it.flags |= ib.SendSignaled
		}
		if w.rnd(10) == 0 {
			it.flags |= ib.SendFence
		}
		if w.rnd(4) == 0 {
			it.flags |= ib.SendSolicited
		}
		e.plan = append(e.plan, it)
	}
	if len(e.plan) > 0 {
		e.plan[len(e.plan)-1].flags |= ib.SendSignaled
	}
}

// longWrite bounds the longest messages.
const longWrite = 14 << 10

// size is a message length that likes the edges.
func (e *endpoint) size() int {
	mtu := e.mtu
	if e.typ == ib.QPTypeUD {
		return []int{0, 1, 60, mtu - 1, mtu}[e.world.rnd(5)]
	}
	return []int{0, 1, 7, 8, 63, 100, mtu - 1, mtu, mtu + 1, 2 * mtu, 2*mtu + 3,
		1 + e.world.rnd(4*mtu)}[e.world.rnd(12)]
}

func (e *endpoint) makeItem(op ib.WROpcode) (it *item, ok bool) {
	w := e.world
	it = &item{to: e.peer}
	if e.typ == ib.QPTypeUD {
		it.to = w.datagrams[w.rnd(len(w.datagrams))]
	}
	it.wr = oracle.WR{Opcode: op, Imm: uint32(w.rnd(1 << 30))}
	if e.typ != ib.QPTypeUD {
		it.wr.Key = it.to.target.mr.RKey()
		if it.to.window != nil && w.rnd(2) == 0 {
			it.wr.Key = it.to.windowKey
		}
	}
	switch op {
	case ib.WRRDMARead:
		n := e.size()
		from := w.rnd(staticBytes - n)
		it.wr.Addr, it.wr.Length = it.to.static.part(from, from).addr(), uint32(n)
		it.result, ok = e.result.take(n)
		if ok {
			e.split(it, it.result)
		}
		return it, ok
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		k := w.rnd(atomicWords)
		it.wr.Addr = it.to.words.part(8*k, 8*k).addr()
		it.wr.Add, it.wr.Swap = w.net.Rand.Uint64()>>1, w.net.Rand.Uint64()
		it.result, ok = e.result.take(8)
		it.sge = []ib.SGE{it.result.sge()}
		return it, ok
	case ib.WRFlush:
		n := e.size()
		it.wr.Addr, it.wr.Length = it.to.static.addr(), uint32(n)
		return it, true
	}
	return it, e.addData(it, op)
}

// addData gives an item the data that it sends, and the memory that it writes. It reports false if
// there is no memory left.
func (e *endpoint) addData(it *item, op ib.WROpcode) (ok bool) {
	w := e.world
	n := e.size()
	switch {
	case op == ib.WRAtomicWrite:
		n = 8
	case op == ib.WRRDMAWrite && w.rnd(12) == 0: // longer than a window after losses
		n = w.rnd(longWrite)
	}
	if op == ib.WRRDMAWrite || op == ib.WRRDMAWriteWithImm || op == ib.WRAtomicWrite {
		if it.target, ok = it.to.target.take(n); !ok {
			return false
		}
		it.wr.Addr = it.target.addr()
	}
	from, ok := e.send.take(n)
	if !ok {
		return false
	}
	if n <= maxInline && op != ib.WRAtomicWrite && w.rnd(3) == 0 {
		it.flags |= ib.SendInline
	}
	e.split(it, from)
	for _, g := range it.sge {
		off := int(g.Addr - virtual)
		it.wr.Data = append(it.wr.Data, e.mem.bytes[off:off+int(g.Length)]...)
	}
	return true
}

// split makes a scatter/gather list over p of up to four elements.
func (e *endpoint) split(it *item, p piece) {
	at := 0
	for k := e.world.rnd(4); k > 0 && at < p.n; k-- {
		end := at + e.world.rnd(p.n-at+1)
		it.sge = append(it.sge, p.part(at, end).sge())
		at = end
	}
	it.sge = append(it.sge, p.part(at, p.n).sge())
}

// fill makes a work request of the item.
func (i *item) fill(e *endpoint, w *queue.SendWQE) {
	w.WRID, w.Opcode, w.Flags, w.Imm = i.wr.ID, i.wr.Opcode, i.flags, i.wr.Imm
	w.RemoteAddr, w.RKey, w.InvalidateKey = i.wr.Addr, i.wr.Key, i.wr.InvKey
	w.CompareAdd, w.Swap = i.wr.Add, i.wr.Swap
	w.Flush, w.Level = ib.FlushGlobal, ib.FlushRange
	w.Length = i.wr.Length
	if i.wr.Opcode == ib.WRBindMW {
		w.Window, w.Region, w.RKey, w.Access = e.window, e.target.mr, e.windowKey,
			targetAccess&^ib.AccessLocalWrite&^ib.AccessMWBind
		w.BindAddr, w.BindLen = e.target.mr.Addr(), e.target.mr.Length()
		return
	}
	if i.wr.Opcode != ib.WRFlush {
		w.Length, _ = queue.TotalLength(i.sge)
	}
	if i.flags&ib.SendInline != 0 {
		w.Inline = append(w.Inline, i.wr.Data...)
	} else {
		w.SGE = append(w.SGE, i.sge...)
	}
	if e.typ == ib.QPTypeXRCSend {
		w.SetRemoteSRQ(srqnBase + ib.SRQN(e.peer.qpn))
	}
	if e.typ == ib.QPTypeUD {
		w.Dst, w.RemoteQPN, w.QKey = i.to.node.addr, i.to.qpn, qkey
	}
}
