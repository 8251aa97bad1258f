// SPDX-License-Identifier: BSD-2-Clause

// Package verbs is RDMA verbs in user space, after libibverbs: devices, protection domains,
// memory regions and windows, completion queues, queue pairs, shared receive queues and address
// handles. It needs no RDMA hardware, no kernel module and no privilege.
//
// Package rdmacm connects queue pairs by IP address and port. Package ib has the values that
// both take and return.
//
// # Devices
//
// Each network interface has a device of each of three kinds, named after it:
//
//	roce_eth0    RoCEv2, over UDP
//	iwarp_eth0   iWARP, over TCP
//	trp_eth0     iWARP over UDP, with TRP as in urdma
//
// A fourth kind, ntb, joins two nodes by memory that both reach: see NTB below. All kinds agree
// where the sections on iWARP and NTB name no difference.
//
// # Objects
//
//	Context ─┬─ PD ─┬─ MR, MW        memory that a key names
//	         │      ├─ QP            send queue and receive queue; RC, UC, UD or XRC
//	         │      ├─ SRQ           receives that several QPs take from
//	         │      └─ AH            a UD destination
//	         ├─ XRCD                 SRQs and XRC_RECV QPs that go together
//	         ├─ CQ                   completions of any number of QPs
//	         └─ CompChannel          announces completions to a goroutine that waits
//
// An object that another one uses cannot be destroyed (EBUSY). Context.Close destroys everything
// that was made on the context.
//
// # Memory
//
// An MR names the caller's own bytes. Registering copies nothing, and peers read and write those
// bytes while the program runs. Two rules of RDMA hold:
//
//   - Memory of a posted work request belongs to the device until the completion.
//   - The target of a peer's WRITE may be read after a completion that comes behind the WRITE:
//     of a SEND, or of a WRITE with immediate data, on the same queue pair. A single aligned
//     word of 8 bytes may also be polled with sync/atomic.
//
// # Progress
//
// CQ.Poll reads the network when it finds no completion, so a program that polls needs no other
// thread. A goroutine in CompChannel.Wait reads the packets that wake it. While no goroutine polls
// or waits, one in the background serves peers.
//
// # Watching
//
// WithLogger logs calls, completions and events. Vars shows devices and queue pairs, in the form of
// package expvar. While package runtime/trace takes an execution trace, it has a region for each
// call that posts work requests or blocks.
//
// # iWARP
//
// Queue pairs of iWARP and TRP are RC only. They differ from those of RoCEv2:
//
//   - Package rdmacm connects them, and takes them to RTS. Modify takes a queue pair from RESET
//     to INIT. It also takes it to ERR and RESET, which ends the connection.
//   - Over TCP a WRITE or SEND is complete when the system has taken it for sending, so that its
//     buffer may be used again. If it fails at the peer, the connection ends: the queue pair
//     goes to ERR, and posted work is flushed. A READ completes with its data. Everything posted
//     before it has arrived then.
//   - Over TRP a WRITE or SEND is complete when the peer's queue pair has received it. The peer
//     may still refuse it.
//   - One error ends the connection for both ends. A SEND that finds no receive is such an
//     error. Over TRP the SEND is repeated first, for some two seconds.
//   - There is no SEND with immediate data. WRITE with immediate data and atomic operations need
//     a peer with RFC 7306, such as this package; siw has neither. Without it they complete with
//     WCLocQPOpErr. Over TRP atomic operations always work.
//   - The memory that a READ fills needs AccessLocalWrite here. Other devices want
//     AccessRemoteWrite as well, as the peer names that memory by its key. A program that gives
//     it runs on all of them.
//   - There are no address handles, no multicast, no XRC, no FLUSH and no ATOMIC WRITE. The GID
//     table has one entry, the MAC address; packets cannot be sent to it.
//
// # NTB
//
// A device of kind ntb (ntb0, ntb1 …) is one end of an NTB link, over which two nodes write into
// each other's memory. The link is shared memory, a PCI device, or TCP; UseLinks or the
// environment variable VERBENA_NTB configures it. The device has RC queue pairs with the
// operations of RoCEv2, without FLUSH and ATOMIC WRITE. It differs in these points:
//
//   - A link of shared memory joins any number of processes of one user at each end. A queue
//     pair connects to queue pairs of all of them, and to those of its own process. The
//     destination QPN selects the process. The GID of the address vector selects the end;
//     without a GID it is the other end.
//   - Any other link has one process at each end. Open fails with EBUSY if another process has
//     it.
//   - The port is active while the peer is connected; a port of shared memory is always active.
//     When the peer ends, queue pairs connected to it go to ERR (EventQPFatal) and the port goes
//     down (EventPortErr). Memory and queue pairs stay, for the next connection.
//   - The peer writes directly to memory from Context.AllocBuffer. MR.Dereg of such memory waits
//     until the peer has confirmed that it writes no more.
//
// # Concurrency
//
// All methods may be called concurrently. Work requests of a queue are processed in the order in
// which the calls of PostSend or PostRecv return.
//
// # Errors
//
// A refused call returns an error that names the argument. It wraps the syscall.Errno that
// rdma-core returns in that case, and the call has changed nothing. A work request that fails
// later is reported by the Status of its completion.
package verbs
