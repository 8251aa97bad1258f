// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"sync/atomic"
	"unsafe"
)

// LoadByte loads a byte that a peer's WRITE may change at any time. There is
// no atomic load of a byte: load the aligned word around it.
func LoadByte(p *byte) byte {
	offset := uintptr(unsafe.Pointer(p)) % 4
	word := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(p), -int(offset))))
	return (*[4]byte)(unsafe.Pointer(&word))[offset]
}
