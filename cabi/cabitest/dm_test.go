// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import "testing"

// TestDeviceMemoryIsCounted frees device memory while it is registered.
func TestDeviceMemoryIsCounted(t *testing.T) {
	program := compile(t, "dm_counted", "-iquote", "../libibverbs", "-iquote", "../include")
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, complaint := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib}); complaint != "" {
		t.Error(complaint)
	}
}
