// SPDX-License-Identifier: BSD-2-Clause

package oracle

import (
	"encoding/binary"

	"verbena/ib"
)

// WR is a work request as the oracle sees it: its bytes, not their source.
type WR struct {
	ID       uint64
	Opcode   ib.WROpcode
	Signaled bool
	Data     []byte // SEND, WRITE, ATOMIC WRITE
	Key      ib.RKey
	Addr     uint64
	Length   uint32 // of a READ or FLUSH
	Imm      uint32
	Add      uint64 // fetch-and-add; compare-and-swap: the value to compare
	Swap     uint64
	InvKey   ib.RKey // SEND with invalidate
}

// Range is memory that a key opens.
type Range struct {
	Addr   uint64
	Bytes  []byte
	Access ib.Access
}

// Target is the far side: its keys and its receives, oldest first.
type Target struct {
	Keys  map[ib.RKey]Range
	Recvs []uint32 // bytes each
}

// Outcome is the fate of one work request.
type Outcome struct {
	WC       bool // a completion is due
	Status   ib.WCStatus
	Got      []byte // READ: the data; atomics: the word as it was
	Received *Received
}

// Received holds the completion of a message at the target's receive queue.
type Received struct {
	Status ib.WCStatus
	Opcode ib.WCOpcode
	Length uint32
	Flags  ib.WCFlags
	Imm    uint32
	Inv    ib.RKey
	Data   []byte // of a SEND
}

// Run executes a send queue. After the first error the rest is flushed.
func (t *Target) Run(queue []WR) []Outcome {
	out := make([]Outcome, 0, len(queue))
	failed := false
	for i := range queue {
		w := &queue[i]
		var o Outcome
		if failed {
			o.Status = ib.WCWRFlushErr
		} else {
			o = t.execute(w)
			failed = o.Status != ib.WCSuccess
		}
		o.WC = w.Signaled || o.Status != ib.WCSuccess
		out = append(out, o)
	}
	return out
}

func (t *Target) execute(w *WR) (o Outcome) {
	switch w.Opcode {
	case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv:
		return t.send(w)
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		return t.write(w)
	case ib.WRRDMARead:
		b, s := t.open(w, uint32(w.Length), ib.AccessRemoteRead)
		return Outcome{Status: s, Got: append([]byte(nil), b...)}
	case ib.WRFlush:
		_, s := t.open(w, w.Length, ib.AccessFlushGlobal)
		return Outcome{Status: s}
	case ib.WRAtomicWrite:
		b, s := t.open(w, 8, ib.AccessRemoteWrite)
		copy(b, w.Data)
		return Outcome{Status: s}
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		b, s := t.open(w, 8, ib.AccessRemoteAtomic)
		if s != ib.WCSuccess {
			return Outcome{Status: s}
		}
		o.Got = append([]byte(nil), b...)
		v := binary.NativeEndian.Uint64(b)
		if w.Opcode == ib.WRAtomicFetchAndAdd {
			v += w.Add
		} else if v == w.Add {
			v = w.Swap
		}
		binary.NativeEndian.PutUint64(b, v)
	}
	return o
}

func (t *Target) send(w *WR) Outcome {
	room := t.Recvs[0]
	t.Recvs = t.Recvs[1:]
	n := uint32(len(w.Data))
	r := &Received{Opcode: ib.WCRecv, Length: n, Data: w.Data}
	if n > room {
		r.Status = ib.WCLocLenErr
		return Outcome{Status: ib.WCRemInvReqErr, Received: r}
	}
	switch w.Opcode {
	case ib.WRSendWithImm:
		r.Flags, r.Imm = ib.WCWithImm, w.Imm
	case ib.WRSendWithInv:
		if _, ok := t.Keys[w.InvKey]; !ok {
			r.Status = ib.WCLocAccessErr
			return Outcome{Status: ib.WCRemAccessErr, Received: r}
		}
		delete(t.Keys, w.InvKey)
		r.Flags, r.Inv = ib.WCWithInv, w.InvKey
	}
	return Outcome{Received: r}
}

func (t *Target) write(w *WR) (o Outcome) {
	b, s := t.open(w, uint32(len(w.Data)), ib.AccessRemoteWrite)
	if s != ib.WCSuccess {
		return Outcome{Status: s}
	}
	copy(b, w.Data)
	if w.Opcode == ib.WRRDMAWriteWithImm {
		t.Recvs = t.Recvs[1:]
		o.Received = &Received{Opcode: ib.WCRecvRDMAWithImm, Length: uint32(len(w.Data)),
			Flags: ib.WCWithImm, Imm: w.Imm}
	}
	return o
}

// open finds n bytes at the address and key of w. Zero bytes need no key.
func (t *Target) open(w *WR, n uint32, need ib.Access) ([]byte, ib.WCStatus) {
	if n == 0 {
		return nil, ib.WCSuccess
	}
	r, ok := t.Keys[w.Key]
	off := w.Addr - r.Addr
	size := uint64(len(r.Bytes))
	if !ok || !r.Access.Has(need) || off > size || uint64(n) > size-off {
		return nil, ib.WCRemAccessErr
	}
	return r.Bytes[off : off+uint64(n)], ib.WCSuccess
}
