// SPDX-License-Identifier: BSD-2-Clause

package simnet

import "verbena/internal/monotime"

// event is something to happen; seq keeps those of one instant in order.
type event struct {
	at  monotime.Time
	seq uint64
	run func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// events is a binary heap, the next event first. Package container/heap would allocate for each.
type events []event

func (h *events) push(e event) {
	list := append(*h, e)
	*h = list
	i := len(list) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&list[up]) {
			break
		}
		list[i] = list[up]
		i = up
	}
	list[i] = e
}

func (h *events) pop() event {
	list := *h
	first, n := list[0], len(list)-1
	e := list[n]
	list[n] = event{}
	*h = list[:n]
	i := 0
	for n > 0 {
		down := 2*i + 1
		if down+1 < n && list[down+1].before(&list[down]) {
			down++
		}
		if down >= n || !list[down].before(&e) {
			list[i] = e
			break
		}
		list[i] = list[down]
		i = down
	}
	return first
}
