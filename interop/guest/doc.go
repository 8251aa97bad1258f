// SPDX-License-Identifier: BSD-2-Clause

// Package guest boots small Linux machines whose kernel has rdma_rxe, the
// software RoCEv2 device of Linux, as peers for tests on a real wire.
//
// Main runs all tests of a package inside network, mount and process namespaces of their own. The
// test process is process 1 in there. So when it ends, even by a crash, the kernel ends every guest
// with it and takes the bridge and the taps away. There is nothing to clean up, and two runs never
// meet. Root is not needed where the kernel grants user namespaces. Tests dial, listen and open
// devices on the LAN directly.
//
//	   test process (Local)          guest 1            guest 2
//	      br0 10.77.0.1          eth0 10.77.0.2     eth0 10.77.0.3
//	          fd77::1                 fd77::2            fd77::3
//	           |                     rxe0               rxe0
//	-----------+------------- tap t1 --+------- tap t2 --+---------
//
// Commands reach guest N over a second tap (10.78.N.0/30), so that br0 and the
// taps t1, t2 carry nothing but the traffic under test. A guest sees the
// host's root file system, read-only, and runs the host's own programs.
//
// There are two kinds of guest, made once into a cache by ../kernel/build: UML,
// up in a third of a second without KVM, and Debian, Debian's kernel in QEMU.
// A UML guest has one CPU: never compare its speed with anything but itself.
// Debian guests can have a PCI device whose memory they share, ivshmem, with a
// doorbell or without.
//
// The package must not know its tests. It knows no RDMA beyond creating rxe0.
package guest
