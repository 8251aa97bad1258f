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
