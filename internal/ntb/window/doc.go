// SPDX-License-Identifier: BSD-2-Clause

// Package window is memory that both ends of a link see: the owner reads it; the peer may write
// anything into it at any time.
//
// Places are offsets, checked against the window's length on every access: a place that comes from
// the peer may be used unchecked, and is refused here. Words of 4 and 8 bytes are read and written
// in one piece. A reader that sees a word sees everything written before it. Bytes may change while
// they are read, so they are copied out before they are judged.
//
// It does not interpret the bytes. A Window has no state of its own; its methods may be called
// concurrently. Its maker keeps the memory mapped.
package window
