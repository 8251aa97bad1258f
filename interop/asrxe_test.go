// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"verbena/interop/guest"
)

// TestRxeJudgesSo runs the C library's test programs in a guest over rxe: their statements about
// rxe hold.
func TestRxeJudgesSo(t *testing.T) {
	g := guest.NewLAN(t, ethernetMTU).Boot(guest.UML)[0]
	for _, program := range []string{"verbs_as_rxe 1024", "verbs_failed_peer", "verbs_unmapped"} {
		guest.Start(t, g, exchangeLimit, fmt.Sprintf("LOOP_DEVICE=rxe0 LOOP_ADDRESS=%v %s", g.IPv4(), filepath.Join(programs, program))).Succeed()
	}
}
