// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

// Package cabitest tests the libraries of the C ABI as applications use them: by C programs that
// are linked with them. It has only tests.
package cabitest
