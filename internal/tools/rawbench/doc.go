// SPDX-License-Identifier: BSD-2-Clause

// Package rawbench measures this machine's UDP sockets with the packets that RoCEv2 would send, and
// with nothing above them. Its figures stand beside ours, taken in the same run.
//
//	stream      bursts of datagrams one way (sendmmsg + UDP_SEGMENT, recvmmsg + UDP_GRO),
//	            at most a window of bytes unacknowledged; small datagrams return credit
//	ping-pong   one small datagram in each direction (sendto, recvfrom), both sides busy polling
//
// Each role is a function that runs on the caller's goroutine: the two roles belong into two
// processes. A server prints its address; the program that starts both carries it to the client.
package rawbench
