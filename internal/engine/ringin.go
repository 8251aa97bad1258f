// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync"

	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/shmring"
	wire "verbena/internal/wire/roce"
)

// ringIn is the receive side of a ring: what Port is to a socket.
type ringIn struct {
	// immutable
	eng  *Engine
	slot int         // of the process that writes
	in   *shmring.In // nil within this process

	rxMu sync.Mutex // held while reading; taken with TryLock except by readAll and close

	// guarded by rxMu
	rx       *shmring.Consumer // also the background goroutine's, which closes it
	pkt      wire.Packet
	meta     roce.Meta
	patience bool
	closed   bool
}

// ringBatch is how many trains are read before others get their turn: senders wait
// for the acknowledgements that go out at the end.
const ringBatch = 4

// tryPoll is Port's.
func (r *ringIn) tryPoll(patience bool) int {
	if !r.rxMu.TryLock() {
		return busy
	}
	n := 0
	if !r.closed {
		r.patience = patience
		n = r.read()
	}
	r.rxMu.Unlock()
	return n
}

// read handles what waits. The caller holds rxMu.
func (r *ringIn) read() (n int) {
	var m shmring.Message
	var now monotime.Time
	var cur *roceConn // locked; its output is pumped when the next one comes
	for n < ringBatch {
		ok, err := r.rx.Next(&m)
		if err != nil {
			r.corrupt()
		}
		if !ok {
			break
		}
		if n == 0 {
			now = monotime.Now()
		}
		n++
		for at := 0; at < len(m.Data) && !m.Question; at += m.Segment {
			end := min(at+m.Segment, len(m.Data))
			cur = r.packet(now, m.Data[at:end:end], &m, cur)
		}
		r.rx.Advance()
	}
	if cur != nil {
		cur.leave(now, r.patience)
	}
	if r.rx.Asked() {
		r.answer()
	}
	return n
}

// packet gives a packet to its connection, which it returns locked. The other side
// may write b meanwhile: what Parse takes from it by value is checked and used,
// and its payload is copied once.
func (r *ringIn) packet(now monotime.Time, b []byte, m *shmring.Message, cur *roceConn) *roceConn {
	w := &r.eng.wire
	v := r.pkt.Parse(b)
	if v == wire.WellFormed {
		w.localRcvd.Add(uint64(roce.StandsFor(&r.pkt)))
	} else {
		w.localRcvd.Add(1)
		w.malformed[v].Add(1)
		if v != wire.BadOpcode {
			return cur
		}
	}
	q := r.pkt.DestQP
	if cur == nil || cur.qpn != q {
		if cur != nil {
			cur.leave(now, r.patience)
		}
		if cur = r.eng.lockRoCE(q); cur == nil {
			return nil
		}
	}
	// What is not from the peer of a connected queue pair, where a socket would
	// show another address, or comes before it has one.
	if cur.path == nil || cur.peerSlot != r.slot || cur.peerTag != m.Tag {
		w.localRefused.Add(1)
		return cur
	}
	r.meta = roce.Meta{Src: cur.path.Dst, Dst: cur.path.Src, SrcPort: roce.UDPPort, TOS: m.TOS, Long: true}
	cur.packets.HandleInput(now, &r.pkt, &r.meta)
	return cur
}

// corrupt ends a ring in which there is what no sender of ours writes.
func (r *ringIn) corrupt() {
	r.eng.wire.localCorrupt.Add(1)
	r.closed = true
	if r.in != nil {
		r.in.HangUp() // the background goroutine does the rest
	}
}

// readAll handles what a process has written so far, which may have ended since: it waits
// for who is at it. A ring does not hold more entries than this reads.
func (r *ringIn) readAll() {
	r.rxMu.Lock()
	defer r.rxMu.Unlock()
	r.patience = false
	for i := 0; !r.closed && i < shmring.MaxEntries; i += ringBatch {
		if r.read() == 0 {
			break
		}
	}
}

// close stops reading.
func (r *ringIn) close() {
	r.rxMu.Lock()
	r.closed = true
	r.eng.local.board.Hide(r.rx)
	r.rxMu.Unlock()
	if r.in != nil {
		r.eng.local.listener.Forget(r.in)
		r.in.Close()
	}
}
