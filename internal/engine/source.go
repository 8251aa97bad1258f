// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/udp"
)

// source is a socket that packets leave by: its port is the flow's entropy.
type source struct {
	udp  *udp.Source
	sock faultcap.Socket // udp, or a tap around it
	addr netip.Addr      // without zone
	zone string          // the interface of a link-local address
	refs int             // guarded by Engine.mu
}

// source returns the socket for packets of a queue pair from a local address.
func (e *Engine) source(addr netip.Addr, qpn ib.QPN) (*source, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pool := e.pools[addr]
	if pool == nil {
		var o udp.Options
		if addr.Is6() { // IPv4 multicast goes by the interface that has the address
			o.Interface = interfaceOf(addr)
		}
		pool = udp.NewSourcePool(addr, o)
		e.pools[addr] = pool
	}
	u, err := pool.Acquire(uint32(qpn))
	if err != nil {
		return nil, fmt.Errorf("engine: send from %v: %w", addr, err)
	}
	s := e.sources[u]
	if s == nil {
		s = &source{udp: u, sock: e.tapped(u.Socket), addr: addr.WithZone(""), zone: addr.Zone()}
		e.sources[u] = s
	}
	s.refs++
	return s, nil
}

func (e *Engine) dropSource(s *source) {
	if s == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.refs--; s.refs == 0 {
		e.overMTU += s.udp.Counters().TooBig
		delete(e.sources, s.udp)
		detach(s.sock)
	}
	s.udp.Release()
}

// cuts reports whether the system cuts trains into datagrams.
func (s *source) cuts() bool { return s.sock.SegmentsTrains() }

// write sends trains of one source address and returns when
// the system has them. What the system does not take within writePatience is lost, as on any
// network.
func (s *source) write(bursts []*roce.Burst, out []udp.Datagrams) {
	for i, b := range bursts {
		b.Seal()
		path := b.Path()
		seg := b.SegmentBytes()
		if b.Len() == 1 {
			seg = 0
		}
		dst := path.Dst
		if dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast() {
			dst = dst.WithZone(s.zone)
		}
		out[i] = udp.Datagrams{Dst: netip.AddrPortFrom(dst, roce.UDPPort), Iov: b.Iov(), SegmentSize: seg, TOS: path.TClass, TTL: path.HopLimit}
	}
	writeAll(s.sock, out[:len(bursts)])
	clear(out)
}

// writeAll writes trains as far as the system takes them.
func writeAll(sock faultcap.Socket, out []udp.Datagrams) {
	for len(out) > 0 {
		k, err := sock.WriteBatch(out)
		if out = out[k:]; err != nil || len(out) == 0 || sock.WaitWritable(writePatience) != nil {
			return
		}
	}
}

const writePatience = 10 * monotime.Millisecond
