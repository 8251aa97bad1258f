// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package entropy

import (
	"crypto/rand"
	"encoding/binary"
)

// Uint64 returns 64 random bits.
func Uint64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand.Read
	return binary.NativeEndian.Uint64(b[:])
}
