// SPDX-License-Identifier: BSD-2-Clause

// Package ether finds the headers of an Ethernet frame that flow steering looks at. It checks that
// they are whole, and no more: checksums and lengths are the receiver's business.
//
//	0            12      14 (+ 4 a VLAN tag)      L3                         L4
//	│ dst │ src  │ VLAN… │ EtherType │ IPv4 or IPv6, with its extensions │ TCP or UDP │ …
//
// Spec: IEEE 802.3, 802.1Q; RFC 791, RFC 8200, RFC 9293, RFC 768.
package ether
