// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import "testing"

// onIWARP lists the programs that use nothing of InfiniBand's connection manager that iWARP's
// lacks: numbers of queue pairs, path records, refused sizes of private data, datagrams.
var onIWARP = []string{
	"iwarp_external", "cm_closefrom", "cm_errors", "cm_families", "cm_fork", "cm_given_up", "cm_lifetime", "cm_migrate", "cm_reject",
	"rsocket_connect", "rsocket_fork", "rsocket_iomap", "rsocket_killed", "rsocket_poll", "rsocket_stream",
}

// TestOnIWARP runs programs over devices that VERBENA_DEVICES names.
func TestOnIWARP(t *testing.T) {
	for _, kind := range []string{"iwarp", "trp"} {
		t.Setenv("VERBENA_DEVICES", kind)
		for _, name := range onIWARP {
			t.Run(kind+"/"+name, func(t *testing.T) {
				if kind == "trp" && name == "rsocket_killed" {
					t.Skip("TRP has no stream that ends: ICMP or silence reveals a killed peer, with ETIMEDOUT")
				}
				run(t, name, "127.0.0.1")
			})
		}
	}
}
