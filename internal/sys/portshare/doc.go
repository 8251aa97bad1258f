// SPDX-License-Identifier: BSD-2-Clause

// Package portshare lets several processes of one user use UDP port 4791 on one
// address, with no set-up and no privilege: the kernel steers each datagram by
// its destination queue pair number to the process that owns it.
//
//	                    (addr, 4791): SO_REUSEPORT
//	datagram ──► BPF: QPN>>14 ──┬─► socket 0   QP0, QP1, multicast: the keeper reads it
//	                by a table  ├─► socket 1   QPNs 0x01c000…0x01ffff: the process that owns slot 7
//	                            ├─► socket 2   QPNs 0x030000…0x033fff: that of slot 12
//	                            ┊              in the order in which they were asked for
//
//	keeper: all sockets, who listens for what
//	   ▲ unix seqpacket: a slot, a socket for each address, the vault, MADs
//	   ├──────────────────────────┬─────────────────────────┐
//	process A (slot 7)         process B (slot 12)       process C (slot 40)
//	its socket, the vault      its socket, the vault     …
//
// # The keeper
//
// The keeper is a process of its own: `verbena keeper`, or the program verbena-keeper that is
// installed with the C libraries. The first process to join starts it (StartKeeper), as nobody's
// child, and it inherits none of that process's descriptors. It ends a moment after the last member
// (Keep). It makes the sockets, and gives each member its slot and that slot's socket of each
// address (SCM_RIGHTS). It knows the listener of each service, and forwards management datagrams
// (QP1) to their member: by listener, or by slot. It refuses those for nobody. No datagram for one
// member passes through another, so a member that is stopped delays no other.
//
// A member is the keeper itself, with the same code and protocol, where no command of this
// version is found or may be executed. So is a member whose child the keeper would become:
// process 1 of a PID namespace, or a subreaper. While that member is stopped the others wait.
//
// The keeper never blocks on a member to forward a datagram. Datagrams that find the
// member's link full queue in its backlog, and the watch reports when there is room again.
//
// # The vault
//
// A group is the sockets of one address. A socket that left it would have the last one take its
// index, and datagrams would go astray. So a keeper puts the descriptors of each socket into a Unix
// socket, the vault, that no process reads from. Every member has its other end: the kernel keeps
// the contents for as long as any of them lives. A killed keeper thus changes nothing for queue
// pairs. The first of its members starts the next keeper, and all connect to it. Each gives it that
// end, its slot and the keys that it listens for. Each is notified (Options.OnKeeper), as datagrams
// that the dead keeper had read are lost. The new keeper peeks into the vault and has the groups.
// When the last member goes, so do they.
//
// # Parts
//
// A process may have a socket for each part of its slot (Member.Part), a quarter of the numbers: as
// many threads then read at once. The program that steers looks for the datagram's part first. A
// socket of a part stays in the group as that of a slot does. Nothing is steered to it until its
// owner reads it (Member.SteerPart), nor when that has gone.
//
// # Ownership is a file lock
//
// Per network namespace there is one lock file in a directory of the user's. The keeper locks its
// byte 0 (F_OFD_SETLK), the owner of slot s its byte s+1. The kernel releases the locks of a
// process that dies, also one that is killed. So a new keeper knows which slots are owned by
// processes that have not come to it yet. The file goes with the keeper that ends last.
//
// The directory is the user's alone, and so is the keeper's socket in it. A name without a file (an
// abstract one) would leave nothing behind. But any user could take it first, or after a keeper
// that was killed.
//
// # Filters
//
// A second program at each socket drops datagrams for nobody before anything is queued. The
// keeper's drops all but management datagrams. A member's drops those for none of its numbers
// (Member.Pass). One without owner or reader drops everything. A socket's filter is the same for
// all processes that have a descriptor of it. So only the slot's owner changes it, and the next
// owner begins with one that drops all.
//
// # Last will
//
// A member leaves datagrams (a DREQ for each connection) in a file of its slot. When its connection
// has ended and its slot is free the keeper sends them. A new keeper sends those of members that
// died before it came. So the peers of a killed process learn of it at once. Nobody speaks for the
// last member where that is the keeper, nor where a whole container or host is killed.
//
// # Limits
//
// 1,024 processes per user, network namespace and directory. A member has eight descriptors, and
// one for each address that its queue pairs use (Member.Socket), and for each part there. It has
// none for an address at which it only listens (Member.Receive): the keeper receives and sends
// there. The keeper has one for each member and one for each address. It has one for each socket of
// a member, too, which stays for the next owner of the slot. As many are in the vault, which
// unix(7) bounds by the keeper's limit of open files. The keeper raises its soft limit to the hard
// one, as every Go program does. All processes of one address are of one user and one network
// namespace: that of the thread that joins. The process's other threads must be in it too. The
// kernel may join datagrams of one flow (UDP_GRO) and steer them by the first. So a receiver may
// find datagrams for another slot, and must count and drop them. A process that forks without exec
// shares its locks with the child: the slot is free when both are gone.
//
// Elsewhere than Linux, and with Options.Solo, there is one process an
// address: its socket gets everything.
package portshare
