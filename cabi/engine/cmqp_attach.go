// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"sync"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/verbs"
)

// An iWARP queue pair is connected with its stream, by the connection manager. rdma_connect and
// rdma_accept name it by number. So they lend it to the identifier, as iw_cm looks it up.

// connectable maps the numbers of iWARP queue pairs, ib.QPN, to *qpObject.
var connectable sync.Map

// lend gives an identifier of iWARP the queue pair with a number.
//
// Errors: EINVAL if there is none.
func (o *cmID) lend(n ib.QPN) error {
	if !o.rdma.Kind().IsIWARP() {
		return nil
	}
	cmMu.Lock()
	o.streams = true
	cmMu.Unlock()
	if q := o.rdma.QP(); q != nil && q.QPN() == n {
		return nil // an earlier attempt lent it
	}
	found, ok := connectable.Load(n)
	if !ok {
		return invalid("queue pair %v: there is none of this number", n)
	}
	q := found.(*qpObject)
	o.rdma.ReleaseQP()
	if err := o.rdma.UseQP((*verbs.QP)(q.verbs)); err != nil {
		return err
	}
	q.lent.Store(o)
	return nil
}

// destroy destroys a queue pair, and ends the connection of its identifier.
func (q *qpObject) destroy() error {
	end := q.verbs.Destroy
	if o := q.lent.Load(); o != nil && o.rdma.QP() == (*verbs.QP)(q.verbs) {
		end = o.rdma.DestroyQP
	}
	err := end()
	if err == nil {
		q.forget()
	}
	return err
}

// listed makes a new queue pair available to lend.
func (q *qpObject) listed(v *core.QP) {
	if v.Context().Info().Kind.IsIWARP() {
		connectable.Store(v.QPN(), q)
	}
}
