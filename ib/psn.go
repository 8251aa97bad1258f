// SPDX-License-Identifier: BSD-2-Clause

package ib

import "fmt"

// PSN is a 24-bit packet sequence number. PSNs wrap, so they compare only by
// serial arithmetic.
//
// Spec: IBTA vol. 1, 9.7.2 Packet sequence numbers.
type PSN uint32

const (
	psnBits = 24
	psnMask = 1<<psnBits - 1
)

// NewPSN returns the low 24 bits of v as a PSN.
func NewPSN(v uint32) PSN { return PSN(v & psnMask) }

// Add returns p advanced by n, modulo 2^24.
func (p PSN) Add(n uint32) PSN { return PSN((uint32(p) + n) & psnMask) }

// Prev returns the PSN just before p.
func (p PSN) Prev() PSN { return PSN((uint32(p) - 1) & psnMask) }

// Diff returns the signed distance from q to p, in [-2^23, 2^23).
func (p PSN) Diff(q PSN) int32 {
	return int32((uint32(p)-uint32(q))<<(32-psnBits)) >> (32 - psnBits)
}

// Before reports whether p comes before q.
func (p PSN) Before(q PSN) bool { return p.Diff(q) < 0 }

// After reports whether p comes after q.
func (p PSN) After(q PSN) bool { return p.Diff(q) > 0 }

func (p PSN) String() string { return fmt.Sprintf("%d", uint32(p)) }

// MSN is a 24-bit message sequence number, counted by a responder and carried
// in AETH.
//
// Spec: IBTA vol. 1, 9.7.7.1 Generating MSN values.
type MSN uint32

// Add returns m advanced by n, modulo 2^24.
func (m MSN) Add(n uint32) MSN { return MSN((uint32(m) + n) & psnMask) }

// Diff returns the signed distance from o to m.
func (m MSN) Diff(o MSN) int32 { return PSN(m).Diff(PSN(o)) }
