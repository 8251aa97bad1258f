// SPDX-License-Identifier: BSD-2-Clause

// Package entropy has numbers that nobody can guess, from the system. It is
// crypto/rand without the timer that this starts at its first use: timers start
// the Go runtime's poller, and the runtime ends a process that closes all its
// descriptors, those of the poller too.
//
// Spec: getrandom(2)
package entropy
