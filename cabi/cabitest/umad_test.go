// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import "testing"

// TestManagementDatagrams: a program that opens umad0 itself, as libibumad does, finds what ib_umad
// offers.
func TestManagementDatagrams(t *testing.T) {
	command := verbena(t)
	if out, complaints := outputOf(t, command, nil, "run", compile(t, "umad")); out != "answered\n" || complaints != "" {
		t.Errorf("%q; %s", out, complaints)
	}
}
