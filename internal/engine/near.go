// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/mem"
)

// maxNear bounds the objects of a connection that Preload knows.
const maxNear = 9

// Near has the objects that a packet of a connection goes through, from its transport to the
// application. With a thousand connections they have left the caches when the next packet comes.
// A reader that knows packets ahead calls PreloadList, and Preload once that memory has come.
type Near struct {
	list atomic.Pointer[nearList] // is replaced, not changed
}

type nearList struct {
	lines [maxNear]mem.Lines
	n     int
}

// Beside adds an object to those that Preload asks for, unless there are too many. Any thread may
// call it.
func (c *Near) Beside(l mem.Lines) {
	for {
		old, list := c.list.Load(), &nearList{}
		if old != nil {
			*list = *old
		}
		if list.n == maxNear {
			return
		}
		list.lines[list.n] = l
		list.n++
		if c.list.CompareAndSwap(old, list) {
			return
		}
	}
}

// PreloadList asks the processor for the list that Preload reads. The caches should have the Conn
// by then. Neither takes a lock.
func (c *Near) PreloadList() {
	if list := c.list.Load(); list != nil {
		mem.LinesOf(list).Preload()
	}
}

// Preload asks the processor for the connection's objects.
func (c *Near) Preload() {
	list := c.list.Load()
	if list == nil {
		return
	}
	for i := range list.n {
		list.lines[i].Preload()
	}
}
