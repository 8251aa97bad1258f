// SPDX-License-Identifier: BSD-2-Clause

package entropy

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Uint64 returns 64 random bits.
func Uint64() uint64 {
	var b [8]byte
	for {
		switch n, err := unix.Getrandom(b[:], 0); {
		case n == len(b): // as few are never cut short
			return binary.NativeEndian.Uint64(b[:])
		case err != nil && err != unix.EINTR:
			panic("entropy: getrandom: " + err.Error()) // Linux has it since 3.17
		}
	}
}
