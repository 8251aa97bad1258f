// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package cputime

// Yielding calls f.
func Yielding(f func()) { f() }
