// SPDX-License-Identifier: BSD-2-Clause

// Package stats lets a process that has devices open be asked for their
// counters, and asks all such processes of a user.
//
//	process A ── Serve ── <dir>/1201.sock ─┐
//	process B ── Serve ── <dir>/1377.sock ─┴─ Collect ── verbena stat
//
// Every process serves one unix socket, named by its process id, in a directory
// of its user: rundir.Dir's, unless it is a test's. A client that connects gets one line of JSON, a
// Snapshot, and the connection is closed. Nothing is read from the client.
//
// A socket whose process was killed stays in the directory. The next Serve or
// Collect finds nobody behind it and removes it.
//
// A Server owns one goroutine, which ends with Close. The snapshot function is
// called from it, one call at a time.
package stats
