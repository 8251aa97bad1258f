// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"cmp"
	"fmt"
	"slices"
)

// twin is a connection that an earlier and a later file have. Its ends are those of the earlier.
type twin struct {
	conn    [2]int    // in the earlier file, and in the later
	swapped bool      // the later calls its ends the other way round
	marks   [2][]mark // of what A sent, and what B sent
	estimate
}

// maxTrials bounds the connections of later files that one is compared with.
const maxTrials = 16

// twins finds the connections whose ends two files have. The others have a sentence of why not.
// rows are those of all connections, one after the other.
func (b *builder) twins(rows []uint32) (list []twin) {
	t := b.t
	known := map[flowKey]int{}
	trials, paired := make([]int, len(t.Conns)), make([]bool, len(t.Conns))
	for i, c := range t.Conns {
		j, swapped, ok := c.lookUp(t.Conns, known)
		renew := !ok
		if ok {
			w := twin{conn: [2]int{j, i}, swapped: swapped}
			o := t.Conns[j]
			name := t.Files[o.File].Name
			trials[j]++
			switch renew = trials[j] > maxTrials; {
			case renew:
			case paired[j]:
				renew = true
				c.Captures = fmt.Sprintf("%s and another file have both ends of this connection "+
					"already.", name)
			default:
				b.mark(&w, rows)
				b.estimate(&w)
				switch {
				case w.none:
					renew = true
					c.Captures = fmt.Sprintf("%s has a connection of the same ends, but none of "+
						"these packets: it is of another time.", name)
				case w.end < 0:
					c.Captures = fmt.Sprintf("%s has captured the same end of this connection.",
						name)
				case w.apart() > maxApart:
					renew = true
					c.Captures = fmt.Sprintf("%s has these packets, too, but %v away: it is of "+
						"another time.", name, round(w.apart()))
				default:
					paired[j], paired[i] = true, true
					list = append(list, w)
				}
			}
		}
		if renew {
			for _, k := range c.keys {
				if k != (flowKey{}) {
					known[k] = i
				}
			}
		}
	}
	return list
}

// lookUp finds the connection of an earlier file with the same ends.
func (c *Conn) lookUp(all []*Conn, known map[flowKey]int) (n int, swapped, ok bool) {
	for i, k := range c.keys {
		if k == (flowKey{}) {
			continue
		}
		if n, ok := known[k]; ok && all[n].Protocol == c.Protocol && all[n].File != c.File {
			return n, all[n].keys[i] != k, true
		}
	}
	return 0, false, false
}

// mark sorts the packets of both captures by what identifies them.
func (b *builder) mark(w *twin, rows []uint32) {
	for later, n := range w.conn {
		r := rangeOf(b.rowConn, rows, n)
		for _, row := range rows[r[0]:r[1]] {
			end := index(b.t.Packets.Flags[row]&FromB != 0)
			if later == 1 && w.swapped {
				end = 1 - end
			}
			w.marks[end] = append(w.marks[end], mark{b.rowIdent[row], row, later == 1})
		}
	}
	streams := b.overTCP(w)
	for _, list := range w.marks {
		slices.SortFunc(list, func(x, y mark) int {
			return cmp.Or(cmp.Compare(x.sameEnd(streams), y.sameEnd(streams)),
				index(x.later)-index(y.later), cmp.Compare(x.row, y.row))
		})
	}
}

// overTCP reports whether the connection is of TCP.
func (b *builder) overTCP(w *twin) bool { return b.t.Conns[w.conn[0]].Protocol == protoIWARP }

// estimate compares the times of the packets that each capture has once.
func (b *builder) estimate(w *twin) {
	at := b.t.Packets.Time
	var windows [clockWindows][2]extremes
	var span extremes
	for _, list := range w.marks {
		for _, m := range list {
			if !m.later {
				span.add(at[m.row])
			}
		}
	}
	width := (span.hi-span.lo)/clockWindows + 1
	for end, list := range w.marks {
		groups(list, b.overTCP(w), func(earlier, later []mark) {
			if len(earlier) == 1 && len(later) == 1 {
				t := at[earlier[0].row]
				windows[(t-span.lo)/width][end].add(at[later[0].row] - t)
			}
		})
	}
	told := -1
	switch x, y := b.t.Conns[w.conn[0]].local, b.t.Conns[w.conn[1]].local; {
	case x == 0 && y == 0:
	case y == 0:
		told = x - 1
	default:
		if w.swapped {
			y = 3 - y
		}
		if told = 2 - y; x == y {
			w.end = -1
			w.none = windows == [clockWindows][2]extremes{}
			return
		}
	}
	w.estimate = compare(&windows, told)
}
