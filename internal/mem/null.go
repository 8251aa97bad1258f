// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"math"
	"sync"

	"verbena/ib"
)

// zeros has the bytes of null regions. Nothing writes them.
var zeros [1 << 20]byte

// zeroSegments returns zeros so often that they cover the longest scatter/gather element.
var zeroSegments = sync.OnceValue(func() []segment {
	list := make([]segment, (math.MaxUint32+1)/len(zeros))
	for i := range list {
		list[i] = segment{end: uint64(i+1) * uint64(len(zeros)), mem: zeros[:]}
	}
	return list
})

// RegisterNull returns a null region, for local use: ibv_alloc_null_mr(3). An element of any
// address and length is inside it. It discards the bytes written to it, and gives zeros.
//
// Errors: ErrNoKey.
func (t *Table) RegisterNull(pd PD) (*Region, error) {
	return t.register(&keyEntry{pd: pd, access: ib.AccessLocalWrite, null: true,
		length: math.MaxUint64, segs: zeroSegments()})
}

// Null reports whether the span is of a null region: its bytes must not be written.
func (s *Span) Null() bool { return s.g != nil && s.g.null }
