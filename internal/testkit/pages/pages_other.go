// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package pages

import "testing"

// Memory is whole pages, mapped for the test.
type Memory []byte

// New skips the test: unmapped memory is told apart on Linux only.
func New(t testing.TB, pages int) Memory {
	t.Skip("whether memory is mapped is known on Linux only")
	return nil
}

// WantProtected does nothing: all memory is taken to be mapped.
func WantProtected(t testing.TB) {}
