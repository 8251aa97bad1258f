// SPDX-License-Identifier: BSD-2-Clause

package trp

// PSN is a 32-bit packet sequence number; each direction counts its own, from
// 0, one for each datagram that bears a segment. PSNs wrap, so they compare
// only by serial arithmetic.
//
// Source: RFC 1982, serial number arithmetic.
type PSN uint32

// Diff returns the signed distance from q to p, in [-2^31, 2^31).
func (p PSN) Diff(q PSN) int32 { return int32(p - q) }

// After reports whether p comes after q.
func (p PSN) After(q PSN) bool { return p.Diff(q) > 0 }
