// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"verbena/interop/guest"
)

// pingpongPort is the TCP port that the pingpong programs meet on.
const pingpongPort = 18515

// pingpongPathMTUs are the path MTUs in bytes. The message of 4,096 bytes that
// the programs send is 4 or 16 packets.
var pingpongPathMTUs = []int{1024, 256}

// TestPingpong exchanges 1,000 messages of each kind, validated.
func TestPingpong(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, kind := range []string{"rc", "uc", "srq"} {
		for _, mtu := range pingpongPathMTUs {
			w.exchange(t, fmt.Sprintf("%s/%d", kind, mtu), func(t *testing.T, p pair) {
				pingpong(t, p, kind, guest.Host.IPv4, fmt.Sprintf("-m %d", mtu))
			})
		}
	}
	for _, size := range pingpongPathMTUs { // a datagram is one packet, of any path MTU
		w.exchange(t, fmt.Sprintf("ud/%d", size), func(t *testing.T, p pair) {
			pingpong(t, p, "ud", guest.Host.IPv4, fmt.Sprintf("-s %d", size))
		})
	}
	for _, kind := range []string{"rc", "ud"} {
		w.exchange(t, kind+"/IPv6", func(t *testing.T, p pair) { pingpong(t, p, kind, guest.Host.IPv6, "") })
	}
}

func TestPingpongBetweenGuests(t *testing.T) {
	w := newPeersWire(t)
	for _, kind := range []string{"rc", "uc", "srq", "ud"} {
		w.exchange(t, kind, func(t *testing.T, p pair) { pingpong(t, p, kind, guest.Host.IPv4, "") })
	}
}

// TestUnmodifiedPingpong has rdma-core's programs at both ends, ours over our
// libraries.
func TestUnmodifiedPingpong(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, c := range []struct{ kind, options string }{{"rc", ""}, {"rc", "-e -N"}, {"uc", ""}, {"srq", "-e"}, {"ud", "-s 1000"}} {
		w.exchange(t, strings.TrimSpace(c.kind+" "+c.options), func(t *testing.T, p pair) {
			pingpongs(t, p, "ibv_"+c.kind+"_pingpong", unmodified, guest.Host.IPv4, c.options)
		})
	}
}

func pingpong(t *testing.T, p pair, kind string, addr func(guest.Host) netip.Addr, options string) {
	t.Helper()
	pingpongs(t, p, kind, func(h guest.Host, kind string) string {
		return rdmaTool(h, "ibv_"+kind+"_pingpong", "pingpong "+kind)
	}, addr, options)
}

// pingpongs runs the command that tool makes of a program at both ends.
func pingpongs(t *testing.T, p pair, program string, tool func(guest.Host, string) string, addr func(guest.Host) netip.Addr, options string) {
	t.Helper()
	command := func(h guest.Host) string {
		return fmt.Sprintf("%s -d %s -g %d -n 1000 -c %s", tool(h, program), rdmaDevice(h), gidIndex(t, h, addr(h)), options)
	}
	server := guest.Start(t, p.server, exchangeLimit, command(p.server))
	guest.Run(t, p.server, exchangeLimit, fmt.Sprintf("until ss -Hltn sport = :%d | grep -q .; do sleep 0.02; done", pingpongPort))
	// Whatever the GIDs are: rdma-core's servers listen to TCP over IPv4 only.
	client := guest.Start(t, p.client, exchangeLimit, command(p.client)+" "+p.server.IPv4().String())
	client.Succeed()
	server.Succeed()
	for _, c := range []*guest.Command{client, server} {
		if strings.Contains(c.Output(), "invalid data") {
			t.Error("a message arrived with other data than was sent")
		}
	}
}

// rdmaDevice names the RDMA device of the host on the LAN.
func rdmaDevice(h guest.Host) string {
	if l, isLocal := h.(guest.Local); isLocal {
		return "roce_" + l.Interface
	}
	return "rxe0"
}

// gidLine is a GID in the output of ibv_devinfo -v and of verbena devinfo -v.
var gidLine = regexp.MustCompile(`GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)`)

// gidIndex finds the index of an address in the GID table of the host's device.
func gidIndex(t *testing.T, h guest.Host, addr netip.Addr) int {
	t.Helper()
	out := guest.Run(t, h, exchangeLimit, rdmaTool(h, "ibv_devinfo", "devinfo")+" -v -d "+rdmaDevice(h))
	for _, match := range gidLine.FindAllStringSubmatch(out, -1) {
		if gid, err := netip.ParseAddr(match[2]); err == nil && gid.Unmap() == addr {
			index, _ := strconv.Atoi(match[1]) // digits, as matched
			return index
		}
	}
	t.Fatalf("%s has no GID of %v:\n%s", h.Name(), addr, out)
	return 0
}
