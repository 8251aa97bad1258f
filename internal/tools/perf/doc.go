// SPDX-License-Identifier: BSD-2-Clause

// Package perf is "verbena perf": bandwidth and latency of WRITE, READ, SEND
// and atomics between two processes, in the tables of perftest.
//
// The side without HOST is the server; the client tells it what to measure. They talk over one TCP
// connection in lines of JSON (Message):
//
//	client                              server
//	hello: test, sizes, queue pairs ─▶
//	                                ◀─  offer: addresses, memory   (or error)
//	offer: addresses, memory        ─▶
//	                                ◀─  ready: connected
//	then for every size:
//	step: size                      ─▶
//	                                ◀─  step: receives are posted
//	        … RDMA, both or one way …
//	done: the results               ─▶
//	                                ◀─  done: the results
//	                                ◀─  count: messages arrived  (bandwidth of SEND over UC and UD)
//	at last:
//	bye                             ─▶
//
// With --rdmacm the connection manager connects the queue pairs between the two offers and "ready".
// It uses the same port number of its TCP port space (UC: IB, UD: UDP); the rest is the same.
//
// UC and UD lose messages without notice. A bandwidth test counts the messages sent, as perftest
// does, and says how many of them arrived. In a latency test each message has a number; one without
// an answer in time counts as lost.
//
// The measuring loops run on one goroutine and allocate nothing. A second
// goroutine reads the TCP connection, so that a loop ends when the peer is
// done, fails or disappears.
package perf
