// SPDX-License-Identifier: BSD-2-Clause

// Package rdmacm is the RDMA connection manager, as librdmacm has it: it
// finds the device for an IP address, exchanges what two queue pairs need to
// know of each other, and drives them to the state in which they work. On the
// wire it speaks the InfiniBand connection manager's protocol, so that the peer
// may be any RoCE host, or, for iWARP devices, MPA's set-up of TCP streams.
//
// # Two ways in
//
// [Dial] and [ListenAddr] work as those of package net: they return a [Conn] with
// its queue pair ready.
//
// [ID] is rdma_cm_id, for everything else. Its calls start something, and an
// [Event] on the identifier's [EventChannel] tells how it ended:
//
//	active                              passive
//	NewID                               NewID
//	ResolveAddr   → ADDR_RESOLVED       BindAddr
//	ResolveRoute  → ROUTE_RESOLVED      Listen
//	CreateQP                                  → CONNECT_REQUEST, with a new ID
//	Connect                             CreateQP (on the new ID)
//	              → ESTABLISHED         Accept → ESTABLISHED
//	Disconnect    → DISCONNECTED              → DISCONNECTED
//	              → TIMEWAIT_EXIT       Disconnect → TIMEWAIT_EXIT
//	DestroyQP, Destroy                  DestroyQP, Destroy
//
// The ID of a request is told nothing before Accept, not even that its peer has given up:
// Accept fails then, with ECONNRESET.
//
// In the UDP port space, and in IB's with a queue pair of type UD, there is no
// connection: Connect asks the peer which queue pair serves the port, and
// ESTABLISHED brings its number and Q_Key.
// JoinMulticast joins a group; MULTICAST_JOIN brings how to send to it.
//
// # iWARP
//
// An ID is for RoCE devices unless [ID.SetKind] or [Options] say otherwise; the
// same address may be that of a device of each kind. Over iWARP there is the TCP
// port space only, and it is the system's: Listen fails where any program listens
// to the TCP port, and keeps others from it. Private data are at most 508 bytes and
// come as long as they were sent. An ID needs its queue pair before Connect and
// Accept; ConnectResponse and TimewaitExit do not come. Disconnect lets what was
// posted be sent and answered first; then both sides' queue pairs are in the error
// state. A peer that is refused, or whose stream is closed before it is up,
// is Rejected; one that does not answer, Unreachable. A local port is known
// from Connect on, unless the ID was bound to one.
//
// Over TRP it is alike, but the ports are UDP's, a port is known from ResolveAddr
// on, private data are at most 512 bytes, and a peer without a listener
// is Rejected where the network tells so, by ICMP, and else Unreachable.
//
// # Links of windows
//
// An ID is for a link of windows (kind ntb) if SetKind says so, or if its address,
// or that of its peer, is only a link's. The messages are those of RoCE, and go
// over the link. There are reliable connections only, in the TCP and IB port
// spaces, whose ports are one process's own; those of shared memory are of all processes of
// one end, and whoever listens has a port for all addresses. ResolveAddr waits for the peer
// to come, up to its context's deadline. When the link is lost, or the process at its other
// end dies, all connections over it are DISCONNECTED at once, and attempts to connect UNREACHABLE.
//
// # Differences from librdmacm
//
// Events need no acknowledgement. An ID is bound to a device by an address as
// usual; its QP may belong to any [verbs.Context] of that device. The ports of an
// address are shared by this user's processes on the machine; the kernel's own
// rdma_cm has a port space of its own. Binding to a port that is taken is always
// EADDRINUSE. Alternate paths and IPoIB's port space are not supported.
//
// DEVICE_REMOVAL comes on Linux only. ADDR_CHANGE, by which librdmacm hints that
// a bond failed over to another hardware address, never comes: an ID here is
// bound to an IP address, which packets leave by whatever interface has it. An
// ID whose IP address has gone fails at its next call.
//
// Options of the process's devices (faults, capture) are given to verbs.Open,
// which must then come before the first identifier.
//
// # Concurrency
//
// All methods may be called concurrently. Events of one ID come in order.
//
// # When the process ends
//
// A peer of a process that ends without Disconnect, even by SIGKILL, is sent a DREQ by
// those who share the port, and sees DISCONNECTED. Where the process was the only one of
// this user's, an executor sends it: on Linux the first connection starts the command
// verbena, found in $PATH, as a process apart that ends with the last that has connections.
//
// A program that is about to call os.Exit calls [Leave] first all the same: there may be no
// such command, and process 1 of a PID namespace has no executor. The peer of a process that
// is killed without one learns when it sends, by its retry limit, or when it disconnects, by
// a time-out of about a minute; one that only waits is told nothing.
package rdmacm
