// SPDX-License-Identifier: BSD-2-Clause

// Package ifwatch reports changes of the network interfaces of this machine: that one begins or
// ceases to carry packets, gets or loses an address, changes its hardware address, or goes away.
//
// On Linux one goroutine per process listens on a netlink socket for as long as anybody watches,
// and keeps a picture of the interfaces (tracker). The kernel repeats itself: it announces an
// address again with each change of its lifetime, a link with each of its counters' flags. Only a
// difference from the picture is a Change. On other systems there is nothing to listen to.
//
// Code that often asks for addresses keeps the answer, and asks a Monitor whether it
// still holds.
//
// Spec: rtnetlink(7)
package ifwatch
