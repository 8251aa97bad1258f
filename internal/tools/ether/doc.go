// SPDX-License-Identifier: BSD-2-Clause

// Package ether is "verbena ether": Ethernet over an NTB link. Each end
// has a TAP interface; a frame that the kernel sends on one is received at the other.
package ether
