// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "unsafe"

// bytesOf is memory aligned as a mapping is.
func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}
