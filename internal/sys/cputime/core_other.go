// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package cputime

// LeaveCore does nothing where a thread cannot choose its cores.
func LeaveCore() (only bool) { return false }
