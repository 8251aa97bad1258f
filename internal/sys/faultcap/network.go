// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"container/heap"
	"math/rand/v2"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

const (
	// maxHeld bounds the datagrams delayed: 4 KiB each at 1 GB/s for 250 ms.
	maxHeld = 1 << 16
	// reorderWait bounds the time for which a datagram waits for others to overtake it.
	reorderWait = monotime.Millisecond
	// maxPassing is the number of datagrams that may overtake one.
	maxPassing = 3
)

// network decides what happens to each datagram, and holds the delayed ones. It is
// single-threaded.
type network struct {
	faults Faults
	rng    *rand.Rand
	seq    uint64   // datagrams entered
	queue  timeline // delayed, soonest first
	late   []*held  // to be overtaken
	ready  []*held  // to be sent now, in order
	out    []udp.Datagrams
	spare  []*held // buffers to use again

	lost, duplicated, reordered, corrupted, delayed, overrun uint64
}

// held is a datagram with its own copy of the bytes.
type held struct {
	d       udp.Datagrams
	buf     []byte
	iov     [1][]byte
	when    monotime.Time
	order   uint64 // of entering: ties leave first come, first served
	passing int    // datagrams still to overtake it
}

func (n *network) init(f Faults, stream uint64) {
	n.faults = f
	n.rng = rand.New(rand.NewPCG(f.Seed, stream))
}

// draws are one datagram's random numbers. All are drawn even if some are not used, so that a
// datagram's draws depend on its position alone.
type draws struct {
	loss, dup, reorder, corrupt float64
	jitter, jitter2             float64
	bit                         uint64
	passing                     int
}

func (n *network) draw() draws {
	r := n.rng
	return draws{r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64(),
		r.Uint64(), 1 + r.IntN(maxPassing)}
}

// enter takes the next size bytes of an item as a datagram.
func (n *network) enter(now monotime.Time, d *udp.Datagrams, c *cutter, size int) {
	n.seq++
	f := n.draw()
	h := n.take()
	first := c.at == 0 && c.off == 0
	pieces := c.cut(nil, size)
	h.buf = h.buf[:0]
	for _, p := range pieces {
		h.buf = append(h.buf, p...)
	}
	h.d = udp.Datagrams{Dst: d.Dst, TOS: d.TOS, TTL: d.TTL}
	if first {
		h.d.Comment = d.Comment
	}
	h.order = n.seq
	if f.loss < n.faults.Loss {
		n.lost++
		n.spare = append(n.spare, h)
		return
	}
	var twin *held
	if f.dup < n.faults.Dup {
		n.duplicated++
		twin = n.take()
		twin.buf = append(twin.buf[:0], h.buf...)
		twin.d, twin.order = h.d, h.order
		twin.d.Comment = ""
	}
	if f.corrupt < n.faults.Corrupt && len(h.buf) > 0 { // the copy is good
		n.corrupted++
		bit := f.bit % uint64(8*len(h.buf))
		h.buf[bit/8] ^= 1 << (bit % 8)
	}
	if f.reorder < n.faults.Reorder {
		n.reordered++
		h.passing = f.passing
	}
	n.place(now, h, f.jitter)
	if twin != nil {
		n.place(now, twin, f.jitter2)
	}
}

// place puts a datagram where it waits.
func (n *network) place(now monotime.Time, h *held, jitter float64) {
	wait := n.faults.Delay + monotime.Duration(jitter*float64(n.faults.Jitter))
	if wait == 0 {
		n.leave(now, h)
		return
	}
	if len(n.queue) == maxHeld {
		n.overrun++
		n.spare = append(n.spare, h)
		return
	}
	n.delayed++
	h.when = now.Add(wait)
	heap.Push(&n.queue, h)
}

// leave sends a datagram, or lets others overtake it, and after it those that
// have been overtaken often enough.
func (n *network) leave(now monotime.Time, h *held) {
	if h.passing > 0 && len(n.late) < maxHeld {
		h.when = now.Add(reorderWait)
		n.late = append(n.late, h)
		return
	}
	n.ready = append(n.ready, h)
	keep := n.late[:0]
	for _, l := range n.late {
		if l.passing--; l.passing <= 0 {
			n.ready = append(n.ready, l)
		} else {
			keep = append(keep, l)
		}
	}
	clear(n.late[len(keep):])
	n.late = keep
}

// due returns the datagrams to be sent at now, valid until recycle.
func (n *network) due(now monotime.Time) []udp.Datagrams {
	for len(n.queue) > 0 && !now.Before(n.queue[0].when) {
		n.leave(now, heap.Pop(&n.queue).(*held))
	}
	for len(n.late) > 0 && !now.Before(n.late[0].when) {
		n.ready = append(n.ready, n.late[0])
		n.late = n.late[1:]
	}
	n.out = n.out[:0]
	for _, h := range n.ready {
		h.iov[0] = h.buf
		h.d.Iov = h.iov[:]
		n.out = append(n.out, h.d)
	}
	return n.out
}

// recycle takes back the buffers of due's result.
func (n *network) recycle() {
	n.spare = append(n.spare, n.ready...)
	clear(n.ready)
	n.ready = n.ready[:0]
}

func (n *network) take() *held {
	if k := len(n.spare); k > 0 {
		h := n.spare[k-1]
		n.spare = n.spare[:k-1]
		h.passing = 0
		return h
	}
	return &held{}
}

// next returns when something will be due.
func (n *network) next() monotime.Time {
	when := monotime.Never
	if len(n.queue) > 0 {
		when = n.queue[0].when
	}
	if len(n.late) > 0 && n.late[0].when.Before(when) {
		when = n.late[0].when
	}
	return when
}

// drop loses everything held.
func (n *network) drop() { n.queue, n.late = nil, nil }

// timeline is a heap of datagrams by time, then order.
type timeline []*held

func (q timeline) Len() int { return len(q) }
func (q timeline) Less(i, j int) bool {
	if q[i].when != q[j].when {
		return q[i].when < q[j].when
	}
	return q[i].order < q[j].order
}
func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(x any)   { *q = append(*q, x.(*held)) }
func (q *timeline) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return h
}
