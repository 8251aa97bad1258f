// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"net/netip"
	"slices"
)

// Event names a change of an interface.
type Event uint8

// Events.
const (
	Up       Event = iota // it carries packets: it is up and running
	Down                  // it does not any more
	Addrs                 // it got or lost a unicast address
	Hardware              // it has another hardware address
	Gone                  // it is no more; Down and Addrs came before, where they apply
)

// Change is one event of one interface.
type Change struct {
	NetDev string
	Event  Event
}

// A message holds one message of the kernel about an interface.
type message struct {
	kind    messageKind
	index   int
	name    string       // of links
	running bool         // of links
	mac     string       // of links: the bytes
	addr    netip.Prefix // of addresses
}

type messageKind uint8

const (
	linkIs messageKind = iota
	linkGone
	addrIs
	addrGone
)

// netif is an interface as the messages so far have it.
type netif struct {
	name    string // empty until a message of the link
	running bool
	mac     string                    // hardware address
	addrs   map[netip.Prefix]struct{} // one address may have several prefixes
}

func (n *netif) has(a netip.Addr) bool {
	for p := range n.addrs {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// tracker is the picture of all interfaces, by index.
type tracker map[int]*netif

// changes collects the changes to report. An interface's addresses are reported once, even if
// several come and go: a watcher looks at all of them.
type changes []Change

func (c *changes) add(n *netif, e Event) {
	if n.name == "" || e == Addrs && slices.Contains(*c, Change{n.name, Addrs}) {
		return
	}
	*c = append(*c, Change{n.name, e})
}

func (t tracker) get(index int) *netif {
	n := t[index]
	if n == nil {
		n = &netif{addrs: map[netip.Prefix]struct{}{}}
		t[index] = n
	}
	return n
}

// apply brings the picture up to date and adds the differences to c.
func (t tracker) apply(m message, c *changes) {
	switch m.kind {
	case linkIs:
		t.linkIs(m, c)
	case linkGone:
		if n := t[m.index]; n != nil {
			n.end(c)
			delete(t, m.index)
		}
	case addrIs:
		n := t.get(m.index)
		known := n.has(m.addr.Addr())
		n.addrs[m.addr] = struct{}{}
		if !known {
			c.add(n, Addrs)
		}
	case addrGone:
		n := t[m.index]
		if n == nil {
			return
		}
		known := n.has(m.addr.Addr())
		delete(n.addrs, m.addr)
		if known && !n.has(m.addr.Addr()) {
			c.add(n, Addrs)
		}
	}
}

func (t tracker) linkIs(m message, c *changes) {
	n := t.get(m.index)
	if n.name != m.name {
		n.end(c) // those that know the interface by its old name
		n.name, n.mac = m.name, m.mac
		n.running = m.running
		n.begin(c)
		return
	}
	if m.mac != "" && n.mac != m.mac { // messages about a radio have none
		n.mac = m.mac
		c.add(n, Hardware)
	}
	if n.running != m.running {
		n.running = m.running
		c.add(n, runs(m.running))
	}
}

func runs(running bool) Event {
	if running {
		return Up
	}
	return Down
}

// begin reports a new interface.
func (n *netif) begin(c *changes) {
	if n.running {
		c.add(n, Up)
	}
	if len(n.addrs) > 0 {
		c.add(n, Addrs)
	}
}

// end reports an interface that is gone.
func (n *netif) end(c *changes) {
	if n.running {
		c.add(n, Down)
	}
	if len(n.addrs) > 0 {
		c.add(n, Addrs)
	}
	c.add(n, Gone)
}

// replace makes the picture another one, taken after messages were lost, and adds the differences
// to c.
func (t tracker) replace(now tracker, c *changes) {
	for index, was := range t {
		is := now[index]
		switch {
		case is == nil || is.name != was.name:
			was.end(c)
			continue
		case is.running != was.running:
			c.add(is, runs(is.running))
		}
		if is.mac != was.mac {
			c.add(is, Hardware)
		}
		if !sameAddrs(was, is) {
			c.add(is, Addrs)
		}
	}
	for index, is := range now {
		if was := t[index]; was == nil || was.name != is.name {
			is.begin(c)
		}
	}
	clear(t)
	for index, is := range now {
		t[index] = is
	}
}

func sameAddrs(a, b *netif) bool {
	within := func(a, b *netif) bool {
		for p := range a.addrs {
			if !b.has(p.Addr()) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}
