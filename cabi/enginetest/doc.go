// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

// Package enginetest tests the engine of the C ABI as the front libraries use
// it: C programs that open libverbena-engine.so and call its table. It has no
// code but tests.
package enginetest
