// SPDX-License-Identifier: BSD-2-Clause

// Package ud is the unreliable datagram service over RoCEv2: one QP value is
// sender and receiver of one queue pair, sans-IO as package roce describes. It
// must not read clocks, lock or touch the network; its caller owns it and
// serialises every call.
//
// A message is one packet of at most the port's MTU. Each work request names its destination; each
// packet its source, and the Q_Key that the receiver checks. Only the posted work bounds the output
// of PollOutput.
//
// The first 40 bytes of a receive buffer are the packet's network header, the
// "GRH", and count in ByteLen:
//
//	IPv6   [ IPv6 header, 40 bytes              ][ payload …
//	IPv4   [ 20 bytes, zero ][ IPv4 header      ][ payload …
//
// Packets to a multicast group are handed to each attached queue pair.
//
// Spec: IBTA vol. 1, 9.8.3 (unreliable datagram), 10.2 (Q_Keys), annex A17
// (RoCEv2: the GRH that a datagram stands for).
package ud
