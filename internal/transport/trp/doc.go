// SPDX-License-Identifier: BSD-2-Clause

// Package trp is the transport of iWARP over UDP by TRP: each association has a UDP port of its
// own. A Listener takes requests at a port. After a queue pair is closed a linger repeats and
// answers for it.
//
// Lock order: input.rxMu → Port.rxMu → Conn → Listener.mu.
package trp
