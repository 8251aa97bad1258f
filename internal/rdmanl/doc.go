// SPDX-License-Identifier: BSD-2-Clause

// Package rdmanl answers requests of NETLINK_RDMA, by which the program rdma of iproute2 lists
// devices, ports, queue pairs and other objects.
//
//	rdma ── socket(AF_NETLINK, …, NETLINK_RDMA) of libverbena-preload.so ── Serve ── Answer
//
// Answer is a function of a request and of System, which says what devices and processes there are.
// Serve, in a process apart, reads requests from a socket that keeps messages apart. A request that
// changes something is refused with EOPNOTSUPP, an unknown or malformed one with EINVAL.
//
// Numbers of objects, but those of queue pairs, are of their process: two processes may have a
// completion queue of one number. Keys of memory are left out, as Linux does for ordinary users.
//
// Spec: Linux, include/uapi/rdma/rdma_netlink.h, include/uapi/linux/netlink.h.
package rdmanl
