// SPDX-License-Identifier: BSD-2-Clause

// Package uc is the unreliable connected service over RoCEv2: one QP value is
// requester and responder of one queue pair, sans-IO as package roce describes.
// It must not read clocks, lock or touch the network; its caller owns it and
// serialises every call.
//
// Nothing is acknowledged. The requester numbers packets and completes a work request when its last
// packet is in a burst; only the posted work bounds the output of PollOutput. The responder takes
// messages whose packets arrive all and in order, and drops any other in silence:
//
//	        First                     Middle, ePSN
//	┌─────┐ ──────────────────► ┌────────────┐ ──┐
//	│ idle│                     │ in message │   │
//	└─────┘ ◄────────────────── └────────────┘ ◄─┘
//	 ▲  │    Last, ePSN; or a gap: message dropped
//	 └──┘ Only; or Middle, Last: dropped
//
// First and Only start a message at any PSN. A receive taken for a SEND that breaks off serves the
// next message.
//
// Spec: IBTA vol. 1, 9.8.2 (unreliable connection), 9.9 (errors).
package uc
