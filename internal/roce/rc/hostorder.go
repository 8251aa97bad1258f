// SPDX-License-Identifier: BSD-2-Clause

package rc

import "encoding/binary"

// Atomic operands travel big-endian and live in memory in the host's order.

func putHost64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

func host64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
