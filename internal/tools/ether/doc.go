// SPDX-License-Identifier: BSD-2-Clause

// Package ether is "verbena ether": Ethernet over a link of windows. A TAP
// interface at each end; what the kernel sends on one is received at the other.
package ether
