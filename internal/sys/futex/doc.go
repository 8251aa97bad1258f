// SPDX-License-Identifier: BSD-2-Clause

// Package futex sleeps without the Go runtime's timers. These start its poller,
// and the runtime ends a process that closes the poller's descriptors, as
// daemons close all. On Linux a Sleeper is a futex(2), which needs no descriptor.
//
// The sleeping thread gives its place in the Go scheduler away at once, as a goroutine
// that parks does. For a thread that is merely in a system call the scheduler checks
// every 20 µs, at the expense of polling threads.
package futex
