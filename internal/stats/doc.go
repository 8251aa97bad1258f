// SPDX-License-Identifier: BSD-2-Clause

// Package stats lets a process that has devices open be asked for their queue pairs and counters,
// and asks all such processes of a user.
//
//	process A ── Serve ── <dir>/NS-7.sock ─┐
//	process B ── Serve ── <dir>/NS-8.sock ─┴─ Collect ── verbena stat
//
// Every process serves one unix socket in a directory of its user: rundir.Dir's, unless it
// is a test's. The name is that of the network namespace and the process's slot in it, which
// containers with one directory do not share, unlike process ids. A client that connects
// gets one line of JSON, a Snapshot, and the connection is closed. In a process with a ring of
// packets a client may send a line first, and gets the packets: Dump. That client must be of the
// same user.
//
// The keeper (package portshare) removes the socket of a process that was killed. Collect
// removes those on which no process listens, and Serve those that have the name of a process
// id, which processes without a slot use.
//
// A living process keeps its last snapshot in <dir>/NS-7.last, memory that outlives it: each second
// while its counters grow, and before it answers. One that ends makes <dir>/NS-7.TIME.ended of it,
// or another process does that finds it dead: Ended returns these. They are kept for ten minutes,
// 64 at most.
//
// A process that ends adds its counters to <dir>/NS-DEVICE.port, for each device. Those of a killed
// process come from its last snapshot. Port sums those and the answers of the living. No process
// removes these files.
//
// A Server owns two goroutines, which end with Close: one answers, one keeps snapshots. The
// snapshot function is called from both.
package stats
