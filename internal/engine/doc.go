// SPDX-License-Identifier: BSD-2-Clause

// Package engine runs the protocol machines: it owns the sockets, the table
// that finds a queue pair by its number, the timers and the background
// goroutine. It knows nothing of protection domains or verbs.
//
// # Who runs when
//
// There is no goroutine a queue pair. Whoever has an event — a thread that
// posts, one that polls, the background goroutine — locks the connection,
// calls its machine and pumps:
//
//	Conn.mu ─► machine.HandleInput / Doorbell / HandleTimeout
//	        └► pump: if nobody pumps, set pumping and repeat
//	             lock   ► machine.PollOutput fills a few trains
//	             unlock ► one sendmmsg writes them
//
// A Conn is what queue pairs of all transports have; it is part of a way, which
// has the machine's packets: how they are written, and an input by which they
// are read and given to the machine.
//
//	way        input     framing
//	roceConn   Port      trains of UDP datagrams, found by queue pair number
//	iwarpConn  tcpInput  FPDUs in a TCP stream, a socket a queue pair
//	trpConn    trpInput  trains of UDP datagrams, a socket a queue pair
//	ntbConn    NTB       writes into the windows of the peers of a device
//
// Only the one that set pumping writes, so packets of a queue pair leave in the
// order in which its machine made them; others leave their work in the queue.
//
// A thread that polls a completion queue and finds nothing takes the receive
// side of the inputs with a try-lock and reads the sockets without blocking. The
// background goroutine blocks on the sockets only while nobody polls; it also
// serves one-sided requests of peers when the application never calls in, and
// the timers. Only to wait for the peer of a link of windows there is a goroutine
// more, until it has come, and in a meeting place for as long as it is open.
//
// # Locks
//
// Order: Port.rxMu → Conn.mu → queue.CQ and queue.SRQ → mem.Table. timerMu is a
// leaf. No connection lock is held across a system call.
package engine
