// SPDX-License-Identifier: BSD-2-Clause

// Package bench is "verbena bench": what this implementation reaches on this
// machine, beside what the machine's sockets can do with the same packets, in
// one run.
//
// Every measure takes two processes over loopback. Ours are "verbena perf"
// started anew for each round; those of the sockets are package rawbench, the
// server in a process of its own ("bench serve", hidden); those of TCP, beside
// iWARP, are here. Rounds of both
// alternate, so that a machine whose speed drifts is fair to both; the median
// counts, and the spread is told.
//
// The result is a table and bench.json: a list of Result.
package bench
