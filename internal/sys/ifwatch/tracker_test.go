// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// read makes messages of words, one each:
//
//	eth0=1+  eth0=1-  link 1 is named eth0, and runs or does not
//	eth0=1+a          its hardware address is a
//	-1                link 1 is gone
//	1+192.0.2.1/24    link 1 has an address
//	1-192.0.2.1/24    it has lost it
func read(t *testing.T, words string) (list []message) {
	t.Helper()
	for _, w := range strings.Fields(words) {
		var m message
		var err error
		switch {
		case strings.Contains(w, "="):
			var runs string
			m.name, w, _ = strings.Cut(w, "=")
			_, err = fmt.Sscanf(w, "%d%s", &m.index, &runs)
			m.running, m.mac = runs[0] == '+', runs[1:]
		case w[0] == '-':
			m.kind = linkGone
			_, err = fmt.Sscanf(w, "-%d", &m.index)
		default:
			m.kind = addrIs
			if strings.Contains(w, "-") {
				m.kind = addrGone
			}
			index, addr, _ := strings.Cut(strings.Replace(w, "-", "+", 1), "+")
			if _, err = fmt.Sscan(index, &m.index); err == nil {
				m.addr, err = netip.ParsePrefix(addr)
			}
		}
		if err != nil {
			t.Fatalf("%q: %v", w, err)
		}
		list = append(list, m)
	}
	return list
}

func picture(t *testing.T, words string) tracker {
	t.Helper()
	p, none := tracker{}, changes{}
	for _, m := range read(t, words) {
		p.apply(m, &none)
	}
	return p
}

var eventNames = [...]string{Up: "up", Down: "down", Addrs: "addrs", Hardware: "hardware", Gone: "gone"}

func text(c changes) string {
	var out []string
	for _, e := range c {
		out = append(out, e.NetDev+":"+eventNames[e.Event])
	}
	return strings.Join(out, " ")
}

// Each batch of the kernel's messages gives the changes named.
func TestTrackerTellsWhatDiffers(t *testing.T) {
	for _, c := range []struct{ what, before, says, tells string }{
		{"a link goes down", "eth0=1+", "eth0=1-", "eth0:down"},
		{"and up", "eth0=1-", "eth0=1+", "eth0:up"},
		{"it says so again", "eth0=1+", "eth0=1+ eth0=1+", ""},
		{"up, but the carrier comes later", "eth0=1-", "eth0=1- eth0=1+", "eth0:up"},
		{"it bounces", "eth0=1+", "eth0=1- eth0=1+", "eth0:down eth0:up"},
		{"an address comes", "eth0=1+", "1+192.0.2.1/24", "eth0:addrs"},
		{"with a new lifetime", "eth0=1+ 1+2001:db8::1/64", "1+2001:db8::1/64 1+2001:db8::1/64", ""},
		{"an address goes", "eth0=1+ 1+192.0.2.1/24", "1-192.0.2.1/24", "eth0:addrs"},
		{"one that was not there goes", "eth0=1+", "1-192.0.2.1/24 7-192.0.2.1/24", ""},
		{"of two prefixes one goes", "eth0=1+ 1+192.0.2.1/24 1+192.0.2.1/32", "1-192.0.2.1/24", ""},
		{"and the other", "eth0=1+ 1+192.0.2.1/32", "1-192.0.2.1/32", "eth0:addrs"},
		{"several come at once", "eth0=1+", "1+192.0.2.1/24 1+192.0.2.2/24 1+2001:db8::1/64", "eth0:addrs"},
		{"on two links", "eth0=1+ eth1=2+", "1+192.0.2.1/24 2+192.0.2.2/24 1+192.0.2.3/24", "eth0:addrs eth1:addrs"},
		{"down, with its addresses", "eth0=1+ 1+fe80::1/64 1+2001:db8::1/64", "1-fe80::1/64 1-2001:db8::1/64 eth0=1-", "eth0:addrs eth0:down"},
		{"a new link", "eth0=1+", "eth1=2- eth1=2+ 2+192.0.2.1/24", "eth1:up eth1:addrs"},
		{"a link is removed", "eth0=1+ 1+192.0.2.1/24", "-1", "eth0:down eth0:addrs eth0:gone"},
		{"as the kernel does it", "eth0=1+ 1+192.0.2.1/24", "eth0=1- 1-192.0.2.1/24 -1", "eth0:down eth0:addrs eth0:gone"},
		{"one that was not there is removed", "", "-1", ""},
		{"renamed", "eth0=1+ 1+192.0.2.1/24", "lan0=1+", "eth0:down eth0:addrs eth0:gone lan0:up lan0:addrs"},
		{"another hardware address", "eth0=1+a", "eth0=1+b eth0=1+b", "eth0:hardware"},
		{"a message without it", "eth0=1+a", "eth0=1+ eth0=1+a", ""},
		{"and down", "eth0=1+a", "eth0=1-b", "eth0:hardware eth0:down"},
		{"an address before its link", "", "1+192.0.2.1/24 eth0=1+", "eth0:up eth0:addrs"},
		{"removed and made anew", "eth0=1+", "-1 eth0=2+", "eth0:down eth0:gone eth0:up"},
	} {
		p, got := picture(t, c.before), changes{}
		for _, m := range read(t, c.says) {
			p.apply(m, &got)
		}
		if text(got) != c.tells {
			t.Errorf("%s: %q, not %q", c.what, text(got), c.tells)
		}
		// A picture taken afterwards has nothing to add.
		again := changes{}
		p.replace(picture(t, c.before+" "+c.says), &again)
		if len(again) > 0 {
			t.Errorf("%s: then a new picture says %q", c.what, text(again))
		}
	}
}

// After lost messages a new picture is compared with the old one.
func TestTrackerReplaces(t *testing.T) {
	for _, c := range []struct{ what, before, now, tells string }{
		{"nothing was lost", "eth0=1+ 1+192.0.2.1/24", "eth0=1+ 1+192.0.2.1/24", ""},
		{"a link is down", "eth0=1+", "eth0=1-", "eth0:down"},
		{"one address for another", "eth0=1+ 1+192.0.2.1/24", "eth0=1+ 1+192.0.2.2/24", "eth0:addrs"},
		{"one more", "eth0=1+ 1+192.0.2.1/24", "eth0=1+ 1+192.0.2.1/24 1+192.0.2.2/24", "eth0:addrs"},
		{"another prefix", "eth0=1+ 1+192.0.2.1/24", "eth0=1+ 1+192.0.2.1/32", ""},
		{"another hardware address", "eth0=1+a", "eth0=1+b", "eth0:hardware"},
		{"a link is gone", "eth0=1+ 1+192.0.2.1/24 eth1=2+", "eth1=2+", "eth0:down eth0:addrs eth0:gone"},
		{"a link is new", "eth0=1+", "eth0=1+ eth1=2+ 2+192.0.2.1/24", "eth1:up eth1:addrs"},
		{"another has its number", "eth0=1+", "eth1=1+", "eth0:down eth0:gone eth1:up"},
	} {
		p, got := picture(t, c.before), changes{}
		now := picture(t, c.now)
		p.replace(now, &got)
		if text(got) != c.tells {
			t.Errorf("%s: %q, not %q", c.what, text(got), c.tells)
		}
		if len(p) != len(now) {
			t.Errorf("%s: the picture has %d links, not %d", c.what, len(p), len(now))
		}
	}
}

func TestChangesAreForNamedLinks(t *testing.T) {
	p, got := tracker{}, changes{}
	for _, m := range read(t, "1+192.0.2.1/24 1-192.0.2.1/24 -1") {
		p.apply(m, &got)
	}
	if len(got) > 0 || slices.Contains(got, Change{}) {
		t.Errorf("of a link without a name: %v", got)
	}
}
