// SPDX-License-Identifier: BSD-2-Clause

// Package loopback finds the device that tests of tools and commands run over:
// that of the loopback interface, which needs no network.
package loopback

import (
	"testing"

	"verbena/verbs"
)

// Device returns the name of the loopback interface's device. A test is skipped
// on systems that have none.
func Device(t testing.TB) string {
	t.Helper()
	list, err := verbs.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.NetDev == "lo" || d.NetDev == "lo0" {
			return d.Name
		}
	}
	t.Skip("this system has no device on the loopback interface")
	return ""
}
