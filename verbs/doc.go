// SPDX-License-Identifier: BSD-2-Clause

// Package verbs is RDMA verbs in user space: devices, protection domains,
// memory regions and windows, completion queues, queue pairs, shared receive
// queues and address handles, as libibverbs has them, with no RDMA hardware and
// no privilege.
//
// # Objects
//
//	Context ─┬─ PD ─┬─ MR, MW        memory that may be named by a key
//	         │      ├─ QP            send queue + receive queue, RC, UC, UD or XRC
//	         │      ├─ SRQ           receives shared by several QPs
//	         │      └─ AH            a UD destination
//	         ├─ XRCD                 SRQs and XRC_RECV QPs that go together
//	         ├─ CQ                   completions of one or several QPs
//	         └─ CompChannel          waits for a completion without polling
//
// An object cannot go while another uses it (EBUSY); Context.Close takes
// everything with it.
//
// # Memory
//
// An MR names the caller's own bytes in place: nothing is copied when it is
// registered, and peers read and write those bytes while the application runs.
// Keep to the rules of RDMA: memory of a posted work request belongs to the
// device until its completion, and the target of a peer's WRITE may be read
// only after a completion that orders it (a later SEND or WRITE with immediate
// of the same queue pair), or with sync/atomic where 8-byte words are polled.
//
// # Progress
//
// CQ.Poll makes progress itself: it reads the network when it finds nothing, so
// a polling application needs no other thread. While nobody polls, one
// background goroutine serves peers and wakes waiters.
//
// # iWARP
//
// A device is of RoCEv2 (roce_eth0), of iWARP over TCP (iwarp_eth0) or of iWARP
// over UDP with TRP (trp_eth0), as urdma has it. All have the same verbs, but
// iWARP's queue pairs are RC only and differ:
//   - A queue pair goes to RTS with its connection, which package rdmacm
//     makes: Modify takes it from RESET to INIT, and to ERR and RESET, which end
//     the connection.
//   - A WRITE or SEND is complete when its buffer may be used again, that is, when
//     the system has taken it for sending. That it failed at the peer is learnt
//     from the end of the connection: the queue pair goes to ERR, what is posted
//     is flushed. A READ completes with its data, and behind it everything before
//     it has arrived. Over TRP a WRITE or SEND is complete when the peer's queue
//     pair has it, which may still refuse it.
//   - One error ends the connection for both. A SEND that finds no receive posted
//     is one: nobody waits and tries again. Over TRP it is sent again for some
//     two seconds.
//   - There is no SEND with immediate data. WRITE with immediate data and atomics
//     work where the peer has RFC 7306, as this package has; else they complete
//     with WCLocQPOpErr. siw has neither; over TRP atomics are always there.
//   - The memory that a READ fills is named to the peer by its key. It needs
//     AccessLocalWrite here; other devices want AccessRemoteWrite as well, and
//     programs that give it, or invalidate the key behind the READ, run on all.
//   - There are no address handles, no multicast, no XRC, no FLUSH and no ATOMIC
//     WRITE. The GID table has one entry, the MAC address, to which nothing is
//     sent.
//
// # Links of windows
//
// A device of kind ntb (ntb0, ntb1 …) is one end of a link over which two nodes
// write into each other's memory, as UseLinks or the environment variable
// VERBENA_NTB name it: shared memory, a PCI device, or TCP. It
// has the verbs of RoCEv2's RC queue pairs but FLUSH and ATOMIC WRITE, and these
// differences:
//   - Of shared memory any number of processes of one user have either end. A
//     queue pair connects to those of all of them, of its own end too, and of its
//     own process: the number says which process, the GID of the address vector which end, and
//     without one it is the other. Of the other links one process has an end: Open
//     fails with EBUSY where another has it.
//   - The port is active while the peer is there, that of shared memory always. When
//     a peer goes, queue pairs connected with it go to ERR (EventQPFatal), and the
//     port is down (EventPortErr) but for shared memory's; memory and queue pairs stay, for the next
//     connection.
//   - Memory from Context.AllocBuffer is where the peer can write it directly.
//     MR.Dereg of it waits for the peer to know that it may no more.
//
// # Concurrency
//
// All methods may be called concurrently. Work requests of one queue are taken
// in the order in which PostSend or PostRecv calls return.
//
// # Errors
//
// A refused call returns an error that names the argument and wraps the
// syscall.Errno that rdma-core returns in that case; nothing is half-made.
// Failed work requests are reported by their completion's Status.
package verbs
