// SPDX-License-Identifier: BSD-2-Clause

// Package rping is "verbena rping": a client and a server that meet by the
// RDMA connection manager and move ping data by SEND, READ and WRITE. It
// speaks to rping of rdma-core, with its options and its output, and has the
// further modes of krping.
//
//	client                                server
//	SEND where the source is ───────────▶
//	                                      READs the ping data from there
//	                         ◀─────────── SEND "go ahead"
//	SEND where the sink is   ───────────▶
//	                                      WRITEs the data back to there
//	                         ◀─────────── SEND "go ahead"
//	compares source and sink
//
// Every SEND carries an Info of 16 bytes, in the server's case without meaning.
//
// How the buffers are registered is the business of a keeper (memory.go):
// plainly; by fast registration, with a new key for every transfer; or through
// a type 2 memory window, bound anew for every transfer. The measuring modes
// of krping begin with an Info from each side and then WRITE or READ only.
//
// A session belongs to one goroutine. A second one waits for the connection's
// end and cancels the session's context.
package rping
