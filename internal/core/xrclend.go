// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"io/fs"
	"syscall"

	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/transport/roce"
)

// An XRC_RECV queue pair of a domain that processes share may be opened by each of them. It runs in
// the process that has made it. There a lentQP stands for the QP of the other process, so that the
// target lives as long as any of them.

// lentQP is a QP of another process.
type lentQP struct{ qp *QP }

// lend is the roce.Lender of the domain.
func (d *xrcDomain) lend(n ib.QPN, onEvent func(ib.EventType)) roce.Lent {
	q := &QP{init: QPInitAttr{Type: ib.QPTypeXRCRecv}, sq: queue.NewSendQueue(0, 0, 0),
		mute: muteXRCRecv, lentTo: onEvent}
	if !d.join(n, q) {
		return nil
	}
	return lentQP{q}
}

func (l lentQP) Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error { return l.qp.Modify(attr, mask) }

func (l lentQP) Query() ib.QPAttr {
	a, _ := l.qp.Query()
	return a
}

func (l lentQP) Return() {
	l.qp.modifyMu.Lock()
	defer l.qp.modifyMu.Unlock()
	l.qp.gone.Store(true)
	l.qp.leaveTarget()
}

// leaveTarget takes q off its target. The last one takes that off the wire.
func (q *QP) leaveTarget() {
	if q.target.part(q) {
		q.conn.Close()
	}
}

// awayTarget is a target of another process: a roce.Opened, which the linker leaves out of programs
// that call no OpenQP.
type awayTarget interface {
	Open() error
	QPN() ib.QPN
	Modify(attr *ib.QPAttr, mask ib.QPAttrMask) error
	Query() (attr ib.QPAttr, ok bool)
	Close()
}

// joinAway makes q a QP that stands for a target of another process.
func (d *xrcDomain) joinAway(n ib.QPN, q *QP) error {
	opened := d.away(n, q.event)
	q.away = opened // first: events may come at once
	err := opened.Open()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fail(syscall.ENOENT, "QPN", "%v is no XRC_RECV queue pair of this domain", n)
	}
	return fail(errnoOf(err, syscall.EIO), "QPN", "%v: %v", n, err)
}

// modifyAway is Modify of a target of another process.
func (q *QP) modifyAway(attr *ib.QPAttr, mask ib.QPAttrMask) error {
	err := q.away.Modify(attr, mask)
	if errors.Is(err, fs.ErrClosed) {
		return fail(syscall.EIO, "QP", "the process that has made it has left the domain")
	}
	return err
}

// queryAway is the first result of Query of a target of another process.
func (q *QP) queryAway() ib.QPAttr {
	a, ok := q.away.Query()
	if !ok {
		a.State, a.CurState = ib.QPErr, ib.QPErr
	}
	return a
}
