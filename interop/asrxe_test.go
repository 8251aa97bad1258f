//go:build linux && interop

package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"verbena/interop/guest"
)

// TestRxeJudgesSo runs in a guest the program by which our C library is tested to judge
// calls as devices do, so that what it says of rxe is so.
func TestRxeJudgesSo(t *testing.T) {
	g := guest.NewLAN(t, ethernetMTU).Boot(guest.UML)[0]
	guest.Start(t, g, exchangeLimit, fmt.Sprintf("LOOP_DEVICE=rxe0 LOOP_ADDRESS=%v %s 1024", g.IPv4(), filepath.Join(programs, "as_rxe"))).Succeed()
}
