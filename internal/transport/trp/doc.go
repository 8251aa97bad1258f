// SPDX-License-Identifier: BSD-2-Clause

// Package trp is the transport of iWARP over UDP by TRP: each association has a UDP port of
// its own. A Listener takes requests at a port; what a closed queue pair still has to repeat
// and to answer is left to a linger.
//
// Lock order: input.rxMu → Port.rxMu → Conn → Listener.mu.
package trp
