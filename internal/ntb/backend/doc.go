// SPDX-License-Identifier: BSD-2-Clause

// Package backend joins the windows of two nodes, as a non-transparent bridge
// does: it is the back end below package channel.
//
//	shm   any number of processes of two nodes, in a hub (Place). Two that want
//	      a link each make a window (sealed memfds) and pass it over a Unix socket,
//	      with an eventfd to be woken by
//	map   a file, or the BAR of a PCI device (sysfs resourceN, QEMU's ivshmem),
//	      that both map: the lower half is the window of side 0. There is nothing
//	      to wake with: a waiting thread looks again and again
//	pci   BAR 2 of a PCI device, by its address, as map. Where the driver vfio-pci
//	      has the device at both ends, and it is QEMU's ivshmem-doorbell, its
//	      register wakes; those of hardware have errata and are left alone
//	tcp   the writes go through a stream, and its reader carries them out
//
// A Link is used by one thread at a time. It works on bare descriptors: nothing
// here starts a goroutine or the runtime's poller.
//
// It does not interpret the bytes written. It knows the heads of the stream (wire/ntb) and that a
// batch can be carried out on a window.
package backend
