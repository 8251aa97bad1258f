// SPDX-License-Identifier: BSD-2-Clause

// Package futex sleeps without the Go runtime's timers. These start its poller,
// and the runtime ends a process that closes the poller's descriptors, as
// daemons close all. A nap on Linux is a futex(2), which has none.
//
// The thread that sleeps gives its place in the Go scheduler away at once, as a
// goroutine that parks does: for one that is merely in a system call the
// scheduler looks every 20 µs, at the expense of those who poll.
package futex
