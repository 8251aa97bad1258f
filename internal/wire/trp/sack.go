// SPDX-License-Identifier: BSD-2-Clause

package trp

// Range is the PSNs from Min to the one before Max.
type Range struct{ Min, Max PSN }

// Header returns the SACK of r. It says nothing about segments before Min.
func (r Range) Header() Header { return Header{PSN: r.Min, AckPSN: r.Max, Opcode: SACK} }

// Range returns the range of a SACK.
func (h Header) Range() Range { return Range{h.PSN, h.AckPSN} }
