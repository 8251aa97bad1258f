// SPDX-License-Identifier: BSD-2-Clause

// Package mem holds the memory that work requests and remote peers may touch: the key table, memory
// regions, fast-registration regions and memory windows.
//
// A key is 24 bits of slot number, passed through a keyed permutation, and 8
// bits of tag:
//
//	 31                       8 7       0
//	+--------------------------+---------+
//	| permutation(slot number) |   tag   |      slot → *keyEntry or nil
//	+--------------------------+---------+
//
// Every slot holds at most one entry: an immutable record of key, protection
// domain, access rights, address range and memory. Granting, changing and
// revoking rights replace the pointer under the table's mutex; Local and
// Remote, called for every packet, only load it. They return a Span, the
// memory itself, with a reference that keeps Deregister from returning while
// the bytes may still be touched. A span lives no longer than one packet or
// one system call.
//
// The layer of verbs objects owns the lifetimes of regions and windows; the
// protocol machines hold keys and resolve them again on each packet. Any slice
// may be registered, whether the Go heap or C gave its memory; its
// owner keeps it alive and in place until Deregister returns.
//
// A request of zero bytes needs no key at all (IBTA vol. 1, C9-88). Callers that use that exemption
// do not call Local or Remote. Nothing here reads it out of a zero length: regions and windows of
// zero length permit nothing.
//
// Spec: IBTA vol. 1, 10.6 (memory management), 9.4.1.1 (send with invalidate),
// 11.2.8 (memory verbs).
package mem
