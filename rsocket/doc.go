// SPDX-License-Identifier: BSD-2-Clause

// Package rsocket is package net over RDMA: streams of bytes that programs use by net.Conn and
// net.Listener, as they use TCP.
//
// On the wire it speaks the protocol of librdmacm's rsockets. So the peer may be a C program over
// rsockets: rstream, or any program under librspreload.so.
//
// # Networks
//
// Dial, DialContext and Listen take the name of a network, which is a kind of devices:
//
//	roce                RoCEv2
//	tcp, tcp4, tcp6     the same: for programs that pass the name of their network on
//	iwarp               iWARP over TCP
//	trp                 iWARP over UDP
//	ntb                 NTB links
//
// Addresses are those of package rdmacm: an IP address of a network interface and a port. Ports are
// those of rdmacm.TCP. Only over iWARP are they also the system's TCP ports.
//
// # Differences from TCP
//
//   - Close waits until what was written has arrived at the peer's device, for a second at most. It
//     goes on in the background for a minute. No kernel sends it for a process that has ended.
//   - If the peer's process is killed, Read returns its bytes that have arrived, and ECONNRESET
//     behind them. It returns io.EOF only if the peer has closed or shut the stream.
//   - Write returns before the peer reads: up to 128 KiB are under way, and up to 4 MiB of a stream
//     of long messages. It has got large buffers, while all those of the process take at most
//     256 MiB.
//   - A Conn that is not closed stays, with its memory: there are no finalizers. A program that ends
//     without closing calls rdmacm.Leave first, so that its peers are notified at once.
//   - There are no urgent data, and no mappings: riomap of a C program fails.
//
// # Datagrams
//
// ListenPacket makes a socket of datagrams over UD queue pairs of RoCEv2, which is a
// net.PacketConn. Dial does so for the networks udp, udp4 and udp6. It differs from UDP:
//
//   - A datagram has at most 2,020 bytes to IPv6 addresses, and 2,032 to others.
//   - 256 datagrams to each local address wait for the program. Those behind them are lost.
//   - The first datagrams to a peer go over a UDP socket, and so do those that are longer than the
//     path MTU. They may arrive behind later ones.
//   - Nothing reports that a port has no socket.
//
// # Concurrency and cost
//
// All methods may be called concurrently. Read and Write do not allocate. Write copies to memory
// that the device reads, and Read from memory that the peer has written. ReadFrom and WriteTo,
// which io.Copy calls, lend that memory to the other end: one copy less. WriteBuffers sends a
// net.Buffers by few messages. WriteTo of net.Buffers sends one for each buffer.
package rsocket
