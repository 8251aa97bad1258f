// SPDX-License-Identifier: BSD-2-Clause

// Package qp is the common part of a queue pair on all transports: its queues, its attributes, its
// state, the receive that a message fills, and the completion of work requests. Protocol machines
// embed a Core and add the protocol.
//
// Like them it is sans-IO and single-threaded: no clock, lock, socket or
// goroutine. Its caller serialises all calls. Completions go straight to the
// Completer given at construction.
//
// Spec: IBTA vol. 1, 10.2.4 and 10.3 (queue pairs), 11.6 (completions).
package qp
