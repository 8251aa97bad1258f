// SPDX-License-Identifier: BSD-2-Clause

// Package window is memory that both ends of a link see: the owner reads it,
// the peer writes it, at any time and whatever it likes.
//
// Places are offsets, checked against the window's length on every access: a
// place that comes from the peer may be used unchecked, and is refused here.
// Words of 4 and 8 bytes are read and written in one piece; who sees a word
// sees all that was written before it. Bytes may change while they are read:
// who judges them copies them out first.
//
// It must not know what the bytes mean. A Window has no state of its own; its
// methods may be called concurrently. Its maker keeps the memory mapped.
package window
