// SPDX-License-Identifier: BSD-2-Clause

// Package ntb is the transport of NTB: writes into the windows of peers. A Device has a node
// for each link, and one lock for all of its queue pairs, as a node does the work of all.
// Short messages are stores that are done when the post returns (engine.Immediate). It also
// carries management datagrams and Ethernet frames.
//
// Another goroutine waits for the peer of a link until it has come. In a shared-memory hub it waits
// for as long as the hub is open.
//
// Lock order: Device.mu → queue.CQ and queue.SRQ → mem.Table.
package ntb
