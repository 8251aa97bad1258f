// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// Linux tells of ports that nobody has.
func TestTRPNobodyListens(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	dst := netip.MustParseAddrPort(l.LocalAddr().String())
	check(t, l.Close())
	client := newFabric(t).process(1).resolvedOf(TRP, dst)
	check(t, client.Connect(&someParam))
	var re *RejectedError
	if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
}
