// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

// listLength is the number of messages that one call posts. The last of them makes a completion.
const listLength = 16

// A completion's WRID says which flow it is of, and how many of its messages
// are done with it.
const flowShift = 48

// flow is the stream of messages on one queue pair.
type flow struct {
	qp        *verbs.QP
	wrs       []verbs.SendWR // one list
	recv      []verbs.RecvWR // one list
	depth     int64
	limit     int64 // messages to send; 0 is no limit
	posted    int64
	completed int64
	ah        *verbs.AH // UD: where messages go, with qpn and qkey
	qpn       ib.QPN
	qkey      ib.QKey
	used      int // receives that arrived and are to be posted again, over all sizes
}

// prepare readies every flow for messages of one size.
func (e *endpoint) prepare(size int, limit int64, peer *Offer) {
	for i := range e.flows {
		f := &e.flows[i]
		f.depth, f.limit, f.posted, f.completed = int64(e.sendDepth()), limit, 0, 0
		wr := e.message(i, size, peer)
		f.wrs = f.wrs[:0]
		for range min(listLength, max(1, e.o.depth/2)) {
			f.wrs = append(f.wrs, wr)
		}
		f.recv = f.recv[:0]
		for range listLength {
			f.recv = append(f.recv,
				verbs.RecvWR{SGList: []ib.SGE{e.mr.SGE(e.receiveHalf(i), e.stride)}})
		}
	}
}

// message is the work request of a flow.
func (e *endpoint) message(i, size int, peer *Offer) verbs.SendWR {
	wr := verbs.SendWR{
		SGList:     []ib.SGE{e.mr.SGE(e.sendHalf(i), size)},
		RemoteAddr: e.remote(peer, i), RKey: ib.RKey(peer.RKey),
	}
	if f := &e.flows[i]; f.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = f.ah, f.qpn, f.qkey
	}
	switch e.o.test.op {
	case "write":
		wr.Opcode = ib.WRRDMAWrite
	case "read":
		wr.Opcode = ib.WRRDMARead
	case "send":
		wr.Opcode = ib.WRSend
	case "atomic":
		wr.Opcode, wr.CompareAdd = ib.WRAtomicFetchAndAdd, 1
	}
	if size <= e.o.inline && (wr.Opcode == ib.WRRDMAWrite || wr.Opcode == ib.WRSend) {
		wr.Flags |= ib.SendInline
		wr.Inline = e.mr.Bytes()[e.sendHalf(i):][:size]
		wr.SGList = nil
	}
	return wr
}

// fill posts lists while the depth has room for a whole one.
func (f *flow) fill(index int) error {
	for {
		n := int64(len(f.wrs))
		if f.limit > 0 {
			n = min(n, f.limit-f.posted)
		}
		if n == 0 || f.posted-f.completed+n > f.depth {
			return nil
		}
		if err := f.post(index, int(n)); err != nil {
			return err
		}
	}
}

// post posts n messages as one list.
func (f *flow) post(index, n int) error {
	last := &f.wrs[n-1]
	last.Flags |= ib.SendSignaled
	last.ID = uint64(index)<<flowShift | uint64(f.posted+int64(n))
	_, err := f.qp.PostSend(f.wrs[:n]...)
	last.Flags &^= ib.SendSignaled
	if err != nil {
		return fmt.Errorf("cannot post: %w", err)
	}
	f.posted += int64(n)
	return nil
}

// finished reports whether every message to send is sent and completed.
func (f *flow) finished(stopped bool) bool {
	return f.posted == f.completed && (stopped || f.limit > 0 && f.posted == f.limit)
}

// complete takes a send completion in and returns how many messages it stands
// for.
func (e *endpoint) complete(wc *ib.WC) (int64, error) {
	if wc.Status != ib.WCSuccess {
		return 0, explain(wc)
	}
	f := &e.flows[wc.WRID>>flowShift]
	done := int64(wc.WRID & (1<<flowShift - 1))
	n := done - f.completed
	f.completed = done
	return n, nil
}

// postReceives posts n receives of a flow, tagged with its index.
func (f *flow) postReceives(index, n int) error {
	for i := range f.recv {
		f.recv[i].ID = uint64(index) << flowShift
	}
	for n > 0 {
		k := min(n, len(f.recv))
		if _, err := f.qp.PostRecv(f.recv[:k]...); err != nil {
			return fmt.Errorf("cannot post a receive: %w", err)
		}
		n -= k
	}
	return nil
}

// restore posts the used receives again once there are at least n.
func (f *flow) restore(index, n int) error {
	if f.used < n || f.used == 0 {
		return nil
	}
	n, f.used = f.used, 0
	return f.postReceives(index, n)
}

// explain explains a failed completion to the user.
func explain(wc *ib.WC) error {
	err := wc.Err()
	switch wc.Status {
	case ib.WCRetryExcErr:
		return fmt.Errorf("%w; %s", err, cli.NoAnswer(wc.VendorErr))
	case ib.WCRNRRetryExcErr:
		return fmt.Errorf("%w; the peer posted no receive", err)
	}
	return err
}
