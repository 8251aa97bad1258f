// SPDX-License-Identifier: BSD-2-Clause

package queue

// A ring counts the places of a queue: which slot is the oldest, how many are
// taken. Its users have the slots. Indices that are absolute count all
// requests since the start and never wrap.
type ring struct {
	depth int    // slots, as asked for
	first int    // slot of the oldest
	n     int    // taken
	head  uint64 // absolute index of the oldest
}

// slot returns where the i-th oldest is, or with i = n the first free one.
func (r *ring) slot(i int) int {
	i += r.first
	if i >= r.depth {
		i -= r.depth
	}
	return i
}

func (r *ring) full() bool { return r.n >= r.depth }

func (r *ring) push() {
	if r.full() {
		panic("queue: commit without reserve")
	}
	r.n++
}

func (r *ring) pop() {
	if r.n == 0 {
		panic("queue: pop of an empty queue")
	}
	r.first = r.slot(1)
	r.n--
	r.head++
}
