// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package ivshmem

import (
	"strings"
	"testing"

	"verbena/interop/guest"
)

// TestSecondNode places memory, threads and a link's window on a NUMA node that is not
// where they would be without asking.
func TestSecondNode(t *testing.T) {
	lan := guest.NewLAN(t, 1500)
	lan.NUMA()
	g := lan.Boot(guest.Debian)[0]
	for _, x := range tests {
		said := guest.Run(t, g, limit, "mkdir -p -m 700 /run/user; XDG_RUNTIME_DIR=/run/user exec "+programs+"/"+x.name+" -test.v -test.run '"+x.run+"'")
		if !strings.Contains(said, "node 1 of ") || strings.Contains(said, "SKIP") {
			t.Errorf("not on the second of two nodes:\n%s", said)
		}
	}
}
