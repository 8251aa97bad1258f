// SPDX-License-Identifier: BSD-2-Clause

package queue

import "verbena/ib"

// MaxShort is the largest number of bytes in a Short.
const MaxShort = 64

// Short is a SEND or WRITE of a few bytes, for a transport that may complete it without a
// place in the send queue.
type Short struct {
	ID    uint64
	Op    ib.WROpcode
	Flags ib.SendFlags
	Imm   uint32
	Key   ib.RKey // WRITE: of the peer's memory; SEND_WITH_INV: to be invalidated
	Addr  uint64  // WRITE
	Local ib.SGE  // where the data was read; all zero of inline data
	Bytes int     // how many of Data there are
	Data  [MaxShort]byte
}
