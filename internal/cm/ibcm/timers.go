// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import "verbena/internal/monotime"

// timerHeap holds the connections with a deadline, the earliest first. At equal deadlines the older
// connection comes first, so that runs are repeatable.
type timerHeap []*conn

const noTimer = -1

func (h timerHeap) first() *conn {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// set replaces the deadline of c.
func (h *timerHeap) set(c *conn, at monotime.Time) {
	c.deadline = at
	if c.timer == noTimer {
		c.timer = len(*h)
		*h = append(*h, c)
	}
	h.up(c.timer)
	h.down(c.timer)
}

// remove takes c's deadline away, if it has one.
func (h *timerHeap) remove(c *conn) {
	i, last := c.timer, len(*h)-1
	if i == noTimer {
		return
	}
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	c.timer = noTimer
	if i < last {
		moved := (*h)[i]
		h.up(i)
		h.down(moved.timer)
	}
}

func (h timerHeap) less(i, j int) bool {
	if h[i].deadline != h[j].deadline {
		return h[i].deadline < h[j].deadline
	}
	return h[i].id < h[j].id
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i, j
}

func (h timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h.less(right, child) {
			child = right
		}
		if !h.less(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}
