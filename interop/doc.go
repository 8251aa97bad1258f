// SPDX-License-Identifier: BSD-2-Clause

// Package interop tests Verbena against the Linux kernel's rdma_rxe and siw and
// the unmodified programs of rdma-core, in guests on a wire of their own; see
// package guest. Its tests need the build tag `interop`:
//
//	make interop                                         # all; installs the programs that they need
//	go test -tags interop -v -run 'TestRping' ./interop  # one
//	… -args -keep /tmp/captures                          # keeps the captures
//
// Every exchange is tried with either side on our end, is captured at the
// guest's tap, and the capture is judged: see package capture. The tests of two
// guests with each other show that peers and judges are sound where none of our
// code takes part.
package interop
