// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/roce"
)

// group is a multicast group on one interface.
type group struct {
	addr    netip.Addr // without zone
	ifIndex int
}

// groups are the multicast groups that queue pairs are attached to. A packet
// to a group is handed to each of them.
type groups struct {
	mu      sync.RWMutex
	members map[group][]*Conn
	ports   map[group]*Port
}

// Attach makes c, a queue pair of RoCEv2, receive packets to a multicast group on the interface
// with the given index. Attaching twice is no error and counts once.
func (t *Transport) Attach(c *engine.Conn, addr netip.Addr, ifIndex int) error {
	r, g, k := c.Transport().(*Conn), &t.groups, group{addr, ifIndex}
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Contains(g.members[k], r) {
		return nil
	}
	if g.ports[k] == nil {
		bound := addr
		if addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast() {
			bound = addr.WithZone(strconv.Itoa(ifIndex))
		}
		s, err := udp.Listen(bound, roce.UDPPort, udp.Options{ReusePort: true, Interface: ifIndex})
		if err != nil {
			return fmt.Errorf("roce: join %v: %w", addr, err)
		}
		p, err := t.addPort(addr, s, k, nil, engine.AllLanes)
		if err != nil {
			s.Close()
			return err
		}
		g.ports[k] = p
	}
	g.members[k] = append(slices.Clip(g.members[k]), r)
	return nil
}

// Detach undoes Attach; it reports whether c was attached.
func (t *Transport) Detach(c *engine.Conn, addr netip.Addr, ifIndex int) bool {
	r, g, k := c.Transport().(*Conn), &t.groups, group{addr, ifIndex}
	g.mu.Lock()
	i := slices.Index(g.members[k], r)
	if i < 0 {
		g.mu.Unlock()
		return false
	}
	g.members[k] = slices.Delete(slices.Clone(g.members[k]), i, i+1)
	var last *Port
	if len(g.members[k]) == 0 {
		last = g.ports[k]
		delete(g.members, k)
		delete(g.ports, k)
	}
	g.mu.Unlock()
	if last != nil {
		t.eng.RemoveInput(last)
		last.raw.Close()
	}
	return true
}

// deliver hands a packet to every queue pair attached to the group whose port
// it came to; it reports whether there are any.
func (g *groups) deliver(now monotime.Time, k group, p *wire.Packet, m *roce.Meta) bool {
	g.mu.RLock()
	members := g.members[k] // replaced, never changed in place
	g.mu.RUnlock()
	for _, c := range members {
		c.Lock()
		if c.Closed() {
			c.Unlock()
			continue
		}
		c.packets.HandleInput(now, p, m)
		c.PumpUnlock(now)
	}
	return len(members) > 0
}
