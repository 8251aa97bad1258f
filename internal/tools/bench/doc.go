// SPDX-License-Identifier: BSD-2-Clause

// Package bench measures this implementation's speed on this machine, beside that of the machine's
// sockets with the same packets.
//
// Every measure takes two processes over loopback, or in two network namespaces with a
// veth pair between them. Ours are "verbena perf", unmodified C programs, and programs of
// folder c, which are compiled where they run. The peers are the same programs over TCP,
// package rawbench and other sockets ("verbena-bench serve", hidden). Each round starts
// its processes anew. Rounds of both alternate, so that a machine whose speed drifts is
// fair to both. The median counts, and the spread is told.
//
// A topic is a part of the table, a group is rows whose figures come from the same
// rounds. The result is a table and bench.json: a list of Result.
package bench
