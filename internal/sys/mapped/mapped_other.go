// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package mapped

// New returns n bytes of zeros, n > 0, until Free.
func New(n int) ([]byte, error) { return make([]byte, n), nil }

// Free ends memory of New, which nothing may use any more.
func Free([]byte) {}
