// SPDX-License-Identifier: BSD-2-Clause

package script

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// WR is a send work request; the functions below make the usual ones, signaled
// and on the machine's own memory from its start.
type WR struct {
	queue.SendWQE
	inline bool
}

// Write is an RDMA WRITE of n bytes.
func Write(n int) WR { return data(ib.WRRDMAWrite, n) }

// WriteImm is an RDMA WRITE of n bytes with immediate data.
func WriteImm(n int, imm uint32) WR {
	w := data(ib.WRRDMAWriteWithImm, n)
	w.Imm = imm
	return w
}

// Send is a SEND of n bytes.
func Send(n int) WR { return data(ib.WRSend, n) }

// SendImm is a SEND of n bytes with immediate data.
func SendImm(n int, imm uint32) WR {
	w := data(ib.WRSendWithImm, n)
	w.Imm = imm
	return w
}

// SendInv is a SEND of n bytes that invalidates the peer's key k.
func SendInv(n int, k ib.RKey) WR {
	w := data(ib.WRSendWithInv, n)
	w.InvalidateKey = k
	return w
}

// Read is an RDMA READ of n bytes.
func Read(n int) WR { return data(ib.WRRDMARead, n) }

// FetchAdd adds to the peer's word.
func FetchAdd(add uint64) WR {
	w := data(ib.WRAtomicFetchAndAdd, 8)
	w.CompareAdd = add
	return w
}

// CompareSwap swaps the peer's word if it is cmp.
func CompareSwap(cmp, swap uint64) WR {
	w := data(ib.WRAtomicCmpAndSwp, 8)
	w.CompareAdd, w.Swap = cmp, swap
	return w
}

// AtomicWrite writes the peer's word.
func AtomicWrite() WR { return data(ib.WRAtomicWrite, 8) }

// Flush makes n bytes at the peer visible.
func Flush(n int) WR {
	w := data(ib.WRFlush, n)
	w.SGE = nil
	w.SendWQE.Flush, w.Level = ib.FlushGlobal, ib.FlushRange
	return w
}

// LocalInv invalidates a key here.
func LocalInv(k ib.RKey) WR {
	w := data(ib.WRLocalInv, 0)
	w.InvalidateKey = k
	return w
}

// RegMR registers r anew under key k.
func RegMR(r *mem.Region, k ib.RKey, a ib.Access) WR {
	w := data(ib.WRRegMR, 0)
	w.Region, w.RKey, w.Access = r, k, a
	return w
}

// BindMW binds window m to n bytes at addr of r.
func BindMW(m *mem.Window, k ib.RKey, r *mem.Region, addr, n uint64, a ib.Access) WR {
	w := data(ib.WRBindMW, 0)
	w.Window, w.RKey, w.Region, w.BindAddr, w.BindLen, w.Access = m, k, r, addr, n, a
	return w
}

func data(o ib.WROpcode, n int) WR {
	return WR{SendWQE: queue.SendWQE{Opcode: o, Length: uint32(n), Flags: ib.SendSignaled,
		RemoteAddr: RemoteAddr, RKey: RemoteKey, QKey: 0x1111, Dst: Peer, RemoteQPN: PeerQPN}}
}

// Unsignaled makes no completion on success.
func (w WR) Unsignaled() WR {
	w.Flags &^= ib.SendSignaled
	return w
}

// Fence waits for earlier READs and atomics.
func (w WR) Fence() WR {
	w.Flags |= ib.SendFence
	return w
}

// Solicited asks the peer for an event.
func (w WR) Solicited() WR {
	w.Flags |= ib.SendSolicited
	return w
}

// Inline copies the data at posting.
func (w WR) Inline() WR {
	w.Flags |= ib.SendInline
	w.inline = true
	return w
}

// Key replaces the peer's key.
func (w WR) Key(k ib.RKey) WR {
	w.RKey = k
	return w
}

// List replaces the scatter/gather list.
func (w WR) List(sge ...ib.SGE) WR {
	w.SGE = sge
	return w
}

// SGE names n bytes from offset off of the machine's memory.
func (s *Script) SGE(off, n int) ib.SGE {
	return ib.SGE{Addr: Base + uint64(off), Length: uint32(n), LKey: s.MR.LKey()}
}

// Post posts work requests, numbered from 1, and lets the machine send.
func (s *Script) Post(list ...WR) {
	s.t.Helper()
	for i := range list {
		w := &list[i]
		slot, ok := s.SQ.Reserve()
		if !ok {
			s.fatalf("send queue full")
		}
		s.wrid++
		sge, inline := slot.SGE, slot.Inline
		*slot = w.SendWQE
		slot.WRID = s.wrid
		slot.SGE, slot.Inline = append(sge, w.SGE...), inline
		switch {
		case w.inline:
			slot.Inline = append(inline, s.Memory[:w.Length]...)
		case w.SGE == nil && w.Length > 0 && w.Opcode != ib.WRFlush:
			slot.SGE = append(sge, s.SGE(0, int(w.Length)))
		}
		s.SQ.Commit()
		s.tell("post %v %d bytes, WR %d", w.Opcode, w.Length, s.wrid)
	}
	s.Machine.Doorbell(s.Now)
	s.pump()
}

// PostRecv posts a receive of n bytes at offset off, numbered from 1001.
func (s *Script) PostRecv(off, n int) {
	g := s.SGE(off, n)
	if s.SRQ != nil {
		g.LKey = s.sharedMR.LKey()
	}
	s.PostRecvList(g)
}

// PostRecvList posts a receive with a scatter list.
func (s *Script) PostRecvList(sge ...ib.SGE) {
	s.t.Helper()
	n, _ := queue.TotalLength(sge)
	s.recvID++
	s.tell("post RECV %d bytes, WR %d", n, s.recvID)
	if s.SRQ != nil {
		if err := s.SRQ.Post(s.recvID, sge); err != nil {
			s.fatalf("%v", err)
		}
		return
	}
	w, ok := s.rq.Reserve()
	if !ok {
		s.fatalf("receive queue full")
	}
	w.WRID, w.Length, w.SGE = s.recvID, n, append(w.SGE, sge...)
	s.rq.Commit()
	s.Machine.Doorbell(s.Now)
	s.pump()
}
