// SPDX-License-Identifier: BSD-2-Clause

// Package ivshmem tests NTB links in the BAR of a PCI device that two
// guests share, with its doorbell and without: the link by itself, verbs and
// the connection manager over it, and guests that are reset and replaced in the
// middle of transfers.
package ivshmem
