// SPDX-License-Identifier: BSD-2-Clause

// Package engine runs the protocol machines. It owns the table that finds a queue pair by its
// number, the timers, the pumps and the background goroutine. It decides which thread polls, and
// knows no transport, no protection domains and no verbs.
//
// # Threads
//
// No queue pair has a goroutine. The thread that has an event posts, polls, waits (Collect,
// ReadToken) or is the background goroutine. It locks the connection, calls its machine and pumps:
//
//	Conn.Lock ─► machine.HandleInput / Doorbell / HandleTimeout
//	          └► PumpUnlock: unless a thread pumps, Transport.FlushOutput repeats
//	               locked   ► machine.PollOutput fills a few bursts
//	               unlocked ► one system call writes them
//
// Only the pumping thread writes, so packets of a queue pair leave in the order in which its
// machine made them. Other threads leave their work in the machine.
//
// # Plug-in points
//
//	Driver     makes the queue pairs of a kind of device
//	Transport  embeds Conn, and sends its machine's output
//	Input      reads what arrives: a socket, an epoll set, memory (Sleeper), a Ring
//	Component  state of a transport that the engine keeps: listeners, ports, counters
//
// A thread that polls a completion queue and finds nothing takes the inputs with a try-lock and
// reads them without blocking. The background goroutine blocks on the sockets only while no thread
// polls or waits. It also runs the timers, and serves one-sided requests of peers while the
// application never calls in. Package policy has the numbers of that.
//
// Functions whose names end in Unlock release a lock that their caller took.
//
// # Locks
//
// Order: an input's lock → Conn → queue.CQ and queue.SRQ → mem.Table. Engine.mu, inputsMu,
// and those of timers and delayed acknowledgements are leaves. No Conn's lock is held across a
// system call, but for the exceptions in ARCHITECTURE.md.
package engine
