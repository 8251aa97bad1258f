// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func TestParseEndpoints(t *testing.T) {
	a, b := netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2")
	at := netip.MustParseAddrPort("192.0.2.1:7000")
	for s, want := range map[string]Endpoint{
		"s:192.0.2.1:7000":              {Serve: true, Addr: at},
		"c:[2001:db8::1]:7000":          {Addr: netip.MustParseAddrPort("[2001:db8::1]:7000")},
		"c:[fe80::1%eth0]:5":            {Addr: netip.MustParseAddrPort("[fe80::1%eth0]:5")},
		"s:192.0.2.1:7000@192.0.2.2":    {Serve: true, Addr: at, From: netip.MustParsePrefix("192.0.2.2/32")},
		"s:192.0.2.1:7000@192.0.2.0/24": {Serve: true, Addr: at, From: netip.MustParsePrefix("192.0.2.0/24")},
		"secret=/k:c:192.0.2.1:7000":    {Addr: at, Secret: "/k"},
		"node=1:secret=/k:10.99.0.1=s:192.0.2.1:7000@fd00::/8": {
			Serve: true, Addr: at, Secret: "/k", From: netip.MustParsePrefix("fd00::/8"), OnNode: true, Node: 1, Ports: [2]netip.Addr{a, a},
		},
		"shm:s:/run/a:b":                    {Kind: Shm, Serve: true, Path: "/run/a:b"},
		"shm:/run/link":                     {Kind: Shm, Meet: true, Path: "/run/link"},
		"shm:s:/run/link":                   {Kind: Shm, Serve: true, Path: "/run/link"},
		"shm:/run/a:b":                      {Kind: Shm, Meet: true, Path: "/run/a:b"},
		"shm:c:/run/a=b":                    {Kind: Shm, Path: "/run/a=b"},
		"map:1:/run/bar":                    {Kind: Mapped, Side: 1, Path: "/run/bar"},
		"pci:1:0000:00:04.0":                {Kind: PCI, Side: 1, Path: "0000:00:04.0"},
		"node=3:shm:/run/link":              {Kind: Shm, Meet: true, Path: "/run/link", OnNode: true, Node: 3},
		"node=0:10.99.0.1=map:0:/run/node=": {Kind: Mapped, Path: "/run/node=", OnNode: true, Ports: [2]netip.Addr{a, a}},
		"10.99.0.1=c:192.0.2.1:7000":        {Addr: at, Ports: [2]netip.Addr{a, a}},
		"10.99.0.1+10.99.0.2=shm:/run/link": {Kind: Shm, Meet: true, Path: "/run/link", Ports: [2]netip.Addr{a, b}},
	} {
		list, err := ParseEndpoints(s)
		if err != nil || len(list) != 1 || list[0] != want {
			t.Errorf("%q: %+v %v, want %+v", s, list, err, want)
			continue
		}
		if back, err := ParseEndpoints(list[0].String()); err != nil || back[0].Kind != want.Kind || back[0].Meet != want.Meet || back[0].Serve != want.Serve {
			t.Errorf("%q as text is %q", s, list[0].String())
		}
	}
	for _, s := range []string{
		"shm:/a,map:0:/b", "10.99.0.1+10.99.0.2=s:192.0.2.1:7000,10.99.0.1+10.99.0.2=c:192.0.2.1:7000",
		"10.99.0.1+10.99.0.2=shm:/a,10.99.0.1+10.99.0.2=shm:/a", "shm:/a,shm:/a", "map:0:/a,map:1:/a",
	} {
		if list, err := ParseEndpoints(s); err != nil || len(list) != 2 {
			t.Errorf("two links: %v %v", list, err)
		}
	}
	for _, s := range []string{"", "s:", "x:1.2.3.4:5", "1.2.3.4:5", "s:host:5", "c:1.2.3.4:70000", "tcp:s:1.2.3.4:5", "shm:", "shm:s:", "shm:c:", "s:192.0.2.1", "s:192.0.2.1:0", "map:2:/x", "node=:shm:/a", "node=-1:shm:/a", "node=0x1:shm:/a", "node=0", "node=70000:shm:/a", "pci:0:", "pci:0:00:04.0", "pci:2:0000:00:04.0", "pci:0:0000:00:04.0/..", "map:0:", "x:/y", "shm:/a,", "10.99.0.1=", "0.0.0.0=shm:/a",
		"10.99.0.1+10.99.0.1=shm:/a", "10.99.0.1+=shm:/a", "fe80::1%lo=shm:/a", "224.0.0.1=shm:/a",
		"10.99.0.1+fd00::1=shm:/a", "shm:0:/a", "shm:S:/a", "shm:x:", "shm:s", "shm:c",
		"c:192.0.2.1:70@192.0.2.2", "s:192.0.2.1:70@", "s:192.0.2.1:70@host", "secret=:s:192.0.2.1:70", "secret=/k:shm:/a", "secret=/k"} {
		if list, err := ParseEndpoints(s); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v %v", s, list, err)
		}
	}
}

// An error names the link and the mistake.
func TestEndpointErrors(t *testing.T) {
	for s, want := range map[string]string{
		"":                                    "a comma",
		"shm:/a,":                             "a comma",
		"x:/y":                                `"x:/y": it is not`,
		"shm:/a,s:localhost:7000":             `"s:localhost:7000": TCP is s:ADDR:PORT, an IP address`,
		"c:192.0.2.1:70000":                   "a port from 1 to 65535",
		"c:192.0.2.1:7000@192.0.2.2":          "of the end that waits",
		"s:192.0.2.1:7000@peer":               `"peer" is neither an IP address nor a network`,
		"secret=/k:map:0:/a":                  "before one of TCP",
		"c:fd00::1:7000":                      "of IPv6 in brackets",
		"shm:0:/a":                            "shm:s:PATH",
		"map:2:/a":                            "map:0:PATH",
		"pci:0:00:04.0":                       "such as 0000:00:04.0",
		"node=:shm:/a":                        "its number",
		"300.0.0.1=shm:/a":                    `"300.0.0.1" is not the IP address`,
		"10.99.0.1+10.99.0.1=shm:/a":          "one address",
		"10.99.0.1+fd00::1=shm:/a":            "IPv4 and an IPv6",
		"s:192.0.2.1:70,s:192.0.2.1:70":       "named twice",
		"map:1:/a,map:1:/a":                   "named twice",
		"10.99.0.1=shm:s:/a,10.99.0.1=shm:/b": `"10.99.0.1=shm:/b": another link's port has the address 10.99.0.1`,
		"fd00::1+fd00::2=shm:c:/a,fd00::2=c:192.0.2.1:70":        "the address fd00::2",
		"10.9.0.1+10.9.0.2=shm:/a,10.9.0.1+10.9.0.2=shm:/b":      "the address 10.9.0.1",
		"10.9.0.1=map:0:/a,10.9.0.2+10.9.0.1=pci:1:0000:00:04.0": "the address 10.9.0.1",
	} {
		if _, err := ParseEndpoints(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", s, err, want)
		}
	}
}

// The addresses of PCI devices are those of a pattern.
func TestPCIAddresses(t *testing.T) {
	pattern := regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	const good, others = "0000:00:04.0", "0f7:.g2A\x00\n-"
	try := func(s string) {
		t.Helper()
		if got, want := isPCIAddress(s), pattern.MatchString(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	for _, s := range []string{"", good, "12345678:ff:1f.7", "123456789:ff:1f.7", "000:00:04.0", "0000:00:04", "0000:00", ":::.", good + "0", good + "."} {
		try(s)
		for i := range s {
			try(s[:i])
			try(s[i:])
			for _, c := range others {
				try(s[:i] + string(c) + s[i+1:])
				try(s[:i] + string(c) + s[i:])
			}
		}
	}
}
