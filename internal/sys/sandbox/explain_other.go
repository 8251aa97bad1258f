// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package sandbox

// Explain returns the error: filters of system calls are Linux's.
func Explain(err error) error { return err }
