// SPDX-License-Identifier: BSD-2-Clause

// Package rdmacm is the RDMA connection manager, after librdmacm. It finds the device for an IP
// address, and exchanges the parameters of two queue pairs. It takes them to the state in which
// they work.
//
// For RoCE devices it speaks the InfiniBand connection manager's protocol, so the peer may be
// any RoCE host. For iWARP it sets up TCP streams with MPA, for TRP it uses TRP's own messages,
// and over NTB links those of RoCE.
//
// # Two interfaces
//
// [Dial] and [ListenAddr] look like those of package net. They return a [Conn] whose queue pair
// is ready.
//
// [ID] is rdma_cm_id, for everything else. Each of its calls starts something, and an [Event] on
// the identifier's [EventChannel] says how it ended:
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
// The ID of a request has no events before Accept. If the peer has given up meanwhile, Accept
// fails with ECONNRESET.
//
// The UDP port space has no connections, nor has the IB port space with queue pairs of type UD.
// There Connect asks the peer which queue pair serves the port, and ESTABLISHED brings its
// number and Q_Key. JoinMulticast joins a group, and MULTICAST_JOIN brings how to send to it.
//
// # iWARP and TRP
//
// An ID is for RoCE devices unless [ID.SetKind] or [Options] say otherwise. One address may be
// that of a device of each kind. iWARP differs:
//
//   - It has the TCP port space only, and the ports are the system's. Listen fails if any
//     program listens on the TCP port, and keeps other programs from it.
//   - Private data are at most 508 bytes, and arrive without padding.
//   - An ID needs its queue pair before Connect and Accept. A local port is known from Connect
//     on, unless the ID was bound to one.
//   - ConnectResponse and TimewaitExit do not occur.
//   - Disconnect lets posted work be sent and answered. Then the queue pairs of both ends go to
//     ERR.
//   - A peer that is refused, or whose stream closes during set-up, gets Rejected. A peer that
//     does not answer is Unreachable.
//
// TRP is like iWARP, but its ports are UDP's, and a port is known from ResolveAddr on. Private
// data are at most 512 bytes. A peer without a listener is Rejected if the network reports it by
// ICMP, and Unreachable otherwise.
//
// # NTB
//
// An ID is for an NTB link if SetKind says so. It is also for one if its address, or that of its
// peer, belongs to a link only. There are reliable connections only, in the TCP and IB port
// spaces.
//
// The ports of a link are those of one process. The ports of a link of shared memory are common
// to all processes of one end; a listener has its port for all addresses.
//
// ResolveAddr waits for the peer, until its context's deadline. When the link is lost, or the
// process at its other end dies, all connections over it are DISCONNECTED at once. Attempts to
// connect are UNREACHABLE.
//
// # Differences from librdmacm
//
//   - Events need no acknowledgement.
//   - The queue pair of an ID may belong to any [verbs.Context] of its device.
//   - The processes of one user on a machine share the ports of an address. The kernel's rdma_cm
//     has a port space of its own.
//   - Binding to a port that is taken always fails with EADDRINUSE.
//   - There are no alternate paths, and no queue pairs in IPoIB's port space.
//   - DEVICE_REMOVAL and ADDR_CHANGE occur on Linux only. ADDR_CHANGE needs no bonding: any change
//     of the interface's hardware address raises it. The connections go on.
//   - An ID is bound to an IP address, and any interface that has the address sends its packets. An
//     ID whose address has gone fails at its next call.
//
// Options of the process's devices, such as faults and captures, are those of the first
// verbs.Open. It must come before the first identifier.
//
// # Concurrency
//
// All methods may be called concurrently. Events of one ID arrive in order.
//
// # When a process ends
//
// If a process ends without Disconnect, even by SIGKILL, its peers see DISCONNECTED: the
// keeper of its port sends a DREQ for it. On Linux the first program to use a device starts the
// keeper, as a separate process: it is the command verbena, found by $PATH, and ends after the
// last program.
//
// A program that ends by os.Exit, or by returning from main, calls [Leave] first all the same.
// The command may not be installed, and process 1 of a PID namespace does not start it: such a
// program is the keeper itself, and nothing speaks for it if it is the last.
//
// If a process is killed and nothing is left to notify its peers, a peer that sends finds out by
// its retry limit. A peer that disconnects finds out by a time-out of about a minute. A peer
// that only waits does not find out.
package rdmacm
