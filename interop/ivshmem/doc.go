// Package ivshmem tests the windows of an NTB link in the BAR of a PCI device
// that two guests share.
package ivshmem
