// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"fmt"
	"net/netip"
)

// Node is a host or a switch of a network.
type Node struct {
	Name string
	Addr netip.Addr // of a host

	id    int
	ports []port
}

// port is a node's way to a neighbour.
type port struct {
	to   *Node
	link *Link
}

func (n *Node) isHost() bool { return n.Addr.IsValid() }

// topology has the nodes, how they are joined, and the paths found so far.
type topology struct {
	nodes  []*Node
	places map[netip.Addr]*Node
	links  []*Link
	// distance has for each destination the links from every node to it; 0 is without a path
	distance map[*Node][]int
	paths    map[pathKey][]*Link
}

// pathKey has the fields of a datagram that choose among equally short paths.
type pathKey struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

// Host adds a host.
func (n *Net) Host(name string, addr netip.Addr) *Node {
	node := n.layout.add(&Node{Name: name, Addr: addr})
	if n.layout.places == nil {
		n.layout.places = map[netip.Addr]*Node{}
	}
	n.layout.places[addr] = node
	return node
}

// Switch adds a switch.
func (n *Net) Switch(name string) *Node { return n.layout.add(&Node{Name: name}) }

func (t *topology) add(node *Node) *Node {
	node.id = len(t.nodes)
	t.nodes = append(t.nodes, node)
	t.forget()
	return node
}

// Connect joins two nodes by a link each way.
func (n *Net) Connect(a, b *Node, there, back *Link) {
	t := &n.layout
	t.connect(n, a, b, there)
	t.connect(n, b, a, back)
	t.forget()
}

func (t *topology) connect(n *Net, a, b *Node, l *Link) {
	l.join(n)
	if l.Name == "" {
		l.Name = a.Name + "-" + b.Name
	}
	a.ports = append(a.ports, port{b, l})
	t.links = append(t.links, l)
}

// Links returns the links that Connect has made.
func (n *Net) Links() []*Link { return n.layout.links }

// LinksBetween returns the links from a to b.
func (a *Node) LinksBetween(b *Node) (list []*Link) {
	for _, p := range a.ports {
		if p.to == b {
			list = append(list, p.link)
		}
	}
	return list
}

// Down takes a link away, or puts it back. Datagrams on their way to it are lost. Those sent from
// now on take another path if there is one.
func (n *Net) Down(l *Link, down bool) {
	l.down = down
	n.layout.forget()
}

// forget has paths found anew.
func (t *topology) forget() {
	t.distance, t.paths = map[*Node][]int{}, map[pathKey][]*Link{}
}

func (t *topology) has(host netip.Addr) bool { return t.places[host] != nil }

// Joined reports whether there is a path from one host to another.
func (n *Net) Joined(src, dst netip.Addr) bool {
	a, b := n.layout.places[src], n.layout.places[dst]
	return a != nil && b != nil && n.layout.distances(b)[a.id] > 0
}

// maxPaths bounds the paths that are kept: ports of a live network's programs are without number.
const maxPaths = 1 << 17

// path returns the links that a datagram takes, none if there is no path.
func (t *topology) path(d *Datagram) []*Link {
	key := pathKey{d.Src, d.Dst, d.SrcPort, d.DstPort}
	if links, ok := t.paths[key]; ok {
		return links
	}
	links := t.find(key)
	if len(t.paths) == maxPaths {
		clear(t.paths)
	}
	t.paths[key] = links
	return links
}

func (t *topology) find(key pathKey) (links []*Link) {
	at, dst := t.places[key.src], t.places[key.dst]
	if at == nil || dst == nil || at == dst {
		return nil
	}
	away := t.distances(dst)
	if away[at.id] == 0 {
		return nil
	}
	for at != dst {
		var next []port
		for _, p := range at.ports {
			left := away[p.to.id]
			through := left > 0 && !p.to.isHost()
			if !p.link.down && left == away[at.id]-1 && (p.to == dst || through) {
				next = append(next, p)
			}
		}
		p := next[key.hash(at.id)%uint64(len(next))]
		links, at = append(links, p.link), p.to
	}
	return links
}

// distances returns how many links away dst is from each node. Hosts forward nothing.
func (t *topology) distances(dst *Node) []int {
	if away := t.distance[dst]; away != nil {
		return away
	}
	away := make([]int, len(t.nodes))
	todo := []*Node{dst}
	for len(todo) > 0 {
		node := todo[0]
		todo = todo[1:]
		if node != dst && node.isHost() {
			continue
		}
		for _, p := range node.ports {
			if back := p.to; back != dst && away[back.id] == 0 && back.up(node) {
				away[back.id] = away[node.id] + 1
				todo = append(todo, back)
			}
		}
	}
	t.distance[dst] = away
	return away
}

// up reports whether a link leads from a to b.
func (a *Node) up(b *Node) bool {
	for _, p := range a.ports {
		if p.to == b && !p.link.down {
			return true
		}
	}
	return false
}

// hash mixes the fields of a path with the number of a node (splitmix64).
func (k *pathKey) hash(node int) uint64 {
	h := uint64(node)
	src, dst := k.src.As16(), k.dst.As16()
	for i := range src {
		h = h*31 + uint64(src[i])
		h = h*31 + uint64(dst[i])
	}
	h = h*65537 + uint64(k.srcPort)
	h = h*65537 + uint64(k.dstPort)
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// FatTree joins hosts by a tree of switches that each have k ports: k pods of k/2 edge and k/2
// aggregation switches, and k²/4 core switches. It has room for k³/4 hosts. newLink makes each
// link. The switches are returned.
//
// Source: Al-Fares et al., A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008.
func (n *Net) FatTree(k int, hosts []*Node, newLink func() *Link) (switches []*Node) {
	half := k / 2
	add := func(format string, a ...any) *Node {
		s := n.Switch(fmt.Sprintf(format, a...))
		switches = append(switches, s)
		return s
	}
	cores := make([]*Node, half*half)
	for i := range cores {
		cores[i] = add("core%d", i+1)
	}
	for pod := range k {
		up := make([]*Node, half)
		for i := range up {
			up[i] = add("agg%d", pod*half+i+1)
			for j := range half {
				n.Connect(up[i], cores[i*half+j], newLink(), newLink())
			}
		}
		for i := range half {
			edge := add("edge%d", pod*half+i+1)
			for _, a := range up {
				n.Connect(edge, a, newLink(), newLink())
			}
			for range half {
				if len(hosts) > 0 {
					n.Connect(hosts[0], edge, newLink(), newLink())
					hosts = hosts[1:]
				}
			}
		}
	}
	return switches
}
