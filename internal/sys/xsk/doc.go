// SPDX-License-Identifier: BSD-2-Clause

// Package xsk sends and receives UDP datagrams as Ethernet frames in memory that the process shares
// with the kernel (AF_XDP), past the kernel's IP stack. Several processes share an interface.
//
//	                     interface, queue q
//	frame ─► XDP program ─► receive ring of the process that has the number's slot ─► ReadBatch
//	             │               ▲ frames of the fill ring, which all processes refill
//	             └► the kernel's sockets: every frame that no ring is for
//
//	WriteBatch ─► frames of the process's own place ─► its transmit ring ─► interface
//	                   ▲ completion ring, which all processes empty
//
// The owner makes a Pool: the memory of all frames (a memfd), and for each process a Seat: sockets
// bound to the interface's queues, with one of the pool's places. A process opens its Seat and
// needs no capability. An XDP program (package xdp) is the owner's business too.
//
// The package knows no RoCE, starts no goroutine and never blocks but in WaitWritable.
//
// # Words
//
// AF_XDP calls the memory of frames a UMEM. A Pool is a UMEM with its rings. Its anchors are the
// sockets that the UMEM's rings, one fill and one completion ring of each queue, belong to. A place
// is the number of a process's share of the frames, and a Seat that share with its sockets. The
// ledger is the head of the memory. A Way is a next hop: the Ethernet addresses of frames to a
// destination.
//
// # What two processes share
//
// The kernel allows one pool of frames to a queue, so its fill ring and its completion ring are
// common. A process takes the lock of one (package file ledger_unsafe.go) for some stores, and
// never waits for it: it keeps its frames and tries again with its next batch. The word of a lock
// names the process that has it, so that the owner can mend the ring of one that was killed.
//
//	memory: header │ locks of each queue │ a bit for each free frame to send │ frames
//
// # Datagrams that go by the kernel's socket
//
// A Source sends by the ring where the route leads out of the interface, the kernel knows the
// neighbour, and the datagram fits the path. It gives all others to the UDP socket that has its
// source port: that resolves neighbours, fragments nothing and counts datagrams that are too long.
// One datagram goes there too where the kernel is to check the neighbour, and so do bursts where
// the Way says so.
package xsk
