// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"verbena/internal/sys/portshare"
)

func TestTakenPortsAreToldApart(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:7200")
	err := explainListen(at, fmt.Errorf("rdmacm: port: %w", syscall.EADDRINUSE))
	if !strings.Contains(err.Error(), "port 7200 is in use") || !strings.Contains(err.Error(), "choose another with -p") {
		t.Errorf("a port of the connection manager: %v", err)
	}
	udp := &portshare.PortError{Addr: at.Addr(), Err: syscall.EADDRINUSE}
	for side, err := range map[string]error{
		"server": explainListen(at, fmt.Errorf("rdmacm: bind: %w", udp)),
		"client": explainDial(at, fmt.Errorf("rdmacm: resolve: %w", udp)),
	} {
		if err.Error() != udp.Error() {
			t.Errorf("%s: %v", side, err)
		}
	}
}
