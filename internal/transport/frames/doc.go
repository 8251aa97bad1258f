// SPDX-License-Identifier: BSD-2-Clause

// Package frames holds an engine's seats at interfaces whose datagrams go past the kernel's IP
// stack (package xsk), for all transports. RoCEv2 opens the seats and reads their rings: it has the
// shared port, and most datagrams are its own. A transport that has UDP ports of its own steers
// them to the seats, and takes the datagrams from the thread that reads:
//
//	ring ─ roce ─┬─ datagrams to port 4791
//	             └─ Set.Deliver ─► Taker of the address and port
//
// A socket that Source wraps sends by the frames of the interface that has its address.
package frames
