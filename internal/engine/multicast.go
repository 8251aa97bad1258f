package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"verbena/internal/monotime"
	"verbena/internal/osio/udp"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// groups are the multicast groups that queue pairs are attached to. A packet
// to a group is handed to each of them.
type groups struct {
	mu      sync.RWMutex
	members map[netip.Addr][]*Conn
	ports   map[netip.Addr]*Port
}

// Attach makes c receive what is sent to a multicast group on the interface
// with the given index. Attaching twice is no error and counts once.
func (e *Engine) Attach(c *Conn, group netip.Addr, ifIndex int) error {
	g := &e.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Contains(g.members[group], c) {
		return nil
	}
	if g.ports[group] == nil {
		s, err := udp.Listen(group, roce.UDPPort, udp.Options{ReusePort: true, Interface: ifIndex})
		if err != nil {
			return fmt.Errorf("engine: join %v: %w", group, err)
		}
		p, err := e.addPort(group, s)
		if err != nil {
			s.Close()
			return err
		}
		g.ports[group] = p
	}
	g.members[group] = append(slices.Clip(g.members[group]), c)
	return nil
}

// Detach undoes Attach; it reports whether c was attached.
func (e *Engine) Detach(c *Conn, group netip.Addr) bool {
	g := &e.groups
	g.mu.Lock()
	i := slices.Index(g.members[group], c)
	if i < 0 {
		g.mu.Unlock()
		return false
	}
	g.members[group] = slices.Delete(slices.Clone(g.members[group]), i, i+1)
	var last *Port
	if len(g.members[group]) == 0 {
		last = g.ports[group]
		delete(g.members, group)
		delete(g.ports, group)
	}
	g.mu.Unlock()
	if last != nil {
		e.removePort(last)
		last.raw.Close()
	}
	return true
}

// deliver hands a packet to every queue pair attached to its group; it reports
// whether there are any.
func (g *groups) deliver(now monotime.Time, p *wire.Packet, m *roce.Meta) bool {
	g.mu.RLock()
	members := g.members[m.Dst] // replaced, never changed in place
	g.mu.RUnlock()
	for _, c := range members {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			continue
		}
		c.machine.HandleInput(now, p, m)
		c.pump(now)
	}
	return len(members) > 0
}
