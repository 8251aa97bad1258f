// SPDX-License-Identifier: BSD-2-Clause

// Package portshare lets several processes of one user use UDP port 4791 on one
// address, with no set-up and no privilege: the kernel steers each datagram by
// its destination queue pair number to the process that owns it.
//
//	                    (addr, 4791): 64 sockets, SO_REUSEPORT
//	datagram ──► BPF: QPN>>18 ──┬─► socket 0   QP0, QP1, multicast: the keeper reads it
//	                            ├─► socket 1   QPNs 0x040000…0x07ffff: the process that owns slot 1
//	                            ├─► socket 2   QPNs 0x080000…0x0bffff
//	                            ┊
//	                            └─► socket 63  QPNs 0xfc0000…0xfffffe
//
//	process A (slot 7, keeper)      process B (slot 12)       process C (slot 40)
//	  all 64 descriptors ◄─────────── all 64 descriptors        all 64 descriptors
//	       ▲  unix seqpacket: descriptors, listeners, MADs ──────────┘
//
// A group is the 64 sockets of one address. A socket that leaves a group makes
// the last one take its index, and datagrams go astray; so every member holds
// copies of all descriptors, and nothing leaves while any member lives. When
// the last one goes, so does the group.
//
// # Ownership is a file lock
//
// Per network namespace there is one lock file in a directory of the user's.
// Byte s of it is locked (F_OFD_SETLK) by the owner of slot s, 1 ≤ s < 64, byte 0 by
// the keeper. The kernel releases the locks of a process that dies, whatever
// killed it. Slot 0 belongs to no process but to the role of keeper.
//
// The keeper is the member that got byte 0. It accepts joiners on a unix
// socket beside the lock file and hands them the descriptors (SCM_RIGHTS), has
// groups made, knows who listens for which service, and forwards management
// datagrams (QP1) to the member that they are for: by listener, or by slot. When
// it dies its members' connections end; each tries to lock byte 0, one gets it
// and becomes keeper, the others connect to that one and say again what they
// listen for, and are told (Options.OnKeeper), as datagrams that the dead one had
// read are lost. A joiner that gets byte 0 while slots are held leaves it to the
// members: only they have the descriptors. A joiner that finds nobody starts anew.
//
// The keeper never blocks on a member to forward a datagram. Datagrams that find the
// member's link full queue in its backlog, and the watch reports when there is room again.
//
// # Filters
//
// A second program at each socket drops, before anything is queued, what is for nobody:
// at slot 0 what is no management datagram; at a member's what is for none of its
// numbers (Member.Pass); at one that nobody owns or reads, everything. A socket's filter
// is the same for all who have a descriptor of it, so only the slot's owner changes it,
// and the next owner begins with one that drops all.
//
// # Last will
//
// A member leaves datagrams (a DREQ for each connection) in a file of its
// slot. Whoever next locks the slot finds them and sends them: the keeper when
// the member's connection ends, a new keeper, or the slot's next owner. So
// the peers of a killed process learn of it at once.
//
// For the last member that is an executor: a process apart, `verbena executor`, which
// the members' first will starts (StartExecutor). It holds byte 64, waits in the kernel for
// the lock of all slots, sends what it finds then, and ends. It costs no time and
// 2 MiB of memory. A member whose wills are changed starts another where it has gone.
// Nobody speaks for the last member where none can be started: the command is not
// found, the system refuses, or orphans become the member's own children. What kills
// a whole container or host kills its executor too.
//
// # Limits
//
// 63 processes a user and address; 64 descriptors a process and address. All
// processes of one address are of one user and one network namespace: that of
// the thread that joins, in which the process's other threads must be too. Datagrams
// of one flow that the kernel joined (UDP_GRO) are steered by the first: a
// receiver may find datagrams for another slot, and must count and drop them. A
// process that forks without exec shares its locks with the child: the slot is
// free when both are gone.
//
// Elsewhere than Linux, and with Options.Solo, there is one process an
// address: its socket gets everything.
package portshare
