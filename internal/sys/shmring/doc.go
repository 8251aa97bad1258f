// SPDX-License-Identifier: BSD-2-Clause

// Package shmring moves bursts of packets between two processes of one user on one host through
// memory that both map. Sockets on the loopback interface take two system calls and two copies in
// the kernel for that.
//
//	process A                                              process B
//	Producer ── entry, entry, … ──► [ ring, 1 MiB ] ──────► Consumer
//	  Reserve, Commit                                         Next, Advance
//	    │                                                      ▲
//	    └── armed? one write to B's eventfd ──► B's poller ────┘
//
// A ring has one direction. Each of two processes that send to each other makes
// its own and hands it over: neither waits for the other to begin.
//
// # Entries
//
//	0      4      8   10  11  12      16
//	│length│ turn │ seg │tos│pq │ tag  │ bytes …          entries start at multiples of 64
//
// The first word shows that the entry is there: it is written last, in one piece. turn is the
// entry's position in the endless sequence of entries, so nothing left of an earlier round is taken
// for one. Before an entry is published the first word of the next place is cleared. So the
// consumer looks at one line of memory only, which an empty ring leaves in its cache. An entry does
// not wrap around the end: a length of all ones skips the rest of the ring. While the consumer
// keeps up the producer skips most of it.
//
// An entry with p = 1 has a prefix of 32 bytes before its packets, which tells more of them.
//
// The producer may ask whether the consumer runs (Producer.Ask), by an entry with q = 1. The
// consumer answers in a word of its own once it has handled everything before.
//
// A program outside Go that polls sees the same word by a Board, without a call.
//
// The consumer writes, on lines of their own, how far it has read, and that it
// is going to sleep (armed): the next publication wakes it. Both sides store
// before they load, sequentially consistent, so no wake-up is lost.
//
// # Trust
//
// The memory is the peer's to write at any time, and a process of this user may be dying or
// hostile. So each word of an entry is loaded once and checked. Data is always within the ring,
// every call ends, and a wrong entry is ErrCorrupt, which makes the ring useless. The bytes of Data
// may change while they are looked at. The memory is sealed: nobody can make it shorter.
//
// # Meeting
//
// A process listens on a Unix socket (Listener). A sender calls Dial, which hands over the memory
// and its identity. The listener checks that, maps the memory and answers with its eventfd. The
// connection stays: its end shows that the process at the other end has gone.
package shmring
