// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"testing"

	"verbena/interop/guest"
)

// TestKilledPeer kills our end, the only process of its host. The kernel's, which only waits,
// learns of it by the DREQ of the keeper.
func TestKilledPeer(t *testing.T) {
	p := newWire(t, guest.UML).pairs[1]
	server := guest.Start(t, p.server, exchangeLimit, fmt.Sprintf("%s serve %v %d 4096 1", peerProgram(p.server), p.addr(), peerPort))
	server.Expect("listening")
	client := guest.Start(t, p.client, exchangeLimit, fmt.Sprintf("echo pid $$; PATH=%s:$PATH exec %s connect %v %d 4096 2 flood",
		programs, peerProgram(p.client), p.addr(), peerPort))
	pid := client.Expect(`(?m)^pid (\d+)$`)[1]
	client.Expect("flooding")
	guest.Run(t, p.client, exchangeLimit, "kill -9 "+pid)
	server.Expect("disconnected")
	server.Wait()
}
