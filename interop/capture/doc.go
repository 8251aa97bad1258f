// SPDX-License-Identifier: BSD-2-Clause

// Package capture records the packets of a network interface and judges them by two programs that
// are not under test: tshark must decode every packet with nothing malformed, and the ICRC of every
// RoCEv2 packet must be right for the headers it came with. tshark shows the ICRC but does not
// check it, so that is done here, with the IPv4 identification known: all 32 bits count.
//
// A capture is of the wire only if the interface is the peer's tap; on the
// bridge, packets that the kernel has yet to segment appear in one piece.
package capture
