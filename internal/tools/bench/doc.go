// SPDX-License-Identifier: BSD-2-Clause

// Package bench measures what this implementation reaches on this machine,
// beside what the machine's sockets reach with the same packets.
//
// Every measure takes two processes over loopback. Ours are "verbena perf"
// started anew for each round; those of the sockets are package rawbench, the
// server in a process of its own ("verbena-bench serve", hidden); those of TCP, beside
// iWARP, are here. Rounds of both
// alternate, so that a machine whose speed drifts is fair to both; the median
// counts, and the spread is told.
//
// The result is a table and bench.json: a list of Result.
package bench
