// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"net/netip"

	"verbena/internal/engine"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/udp"
	"verbena/internal/transport/frames"
)

// source is a socket that packets leave by: its port is the flow's entropy.
type source struct {
	udp  *udp.Source
	sock faultcap.Socket // udp, or a tap or *xsk.Source around it
	addr netip.Addr      // without zone
	zone string          // the interface of a link-local address
	refs int             // guarded by Transport.mu
	// frames is true if packets leave by frames; immutable
	frames bool
}

// source returns the socket for packets of a flow from a local address.
func (t *Transport) source(addr netip.Addr, flow uint32) (*source, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pool := t.pools[addr]
	if pool == nil {
		// most packets are of RC
		o := udp.Options{TOS: roce.ECT0}
		if addr.Is6() { // IPv4 multicast goes by the interface that has the address
			o.Interface = frames.InterfaceOf(addr)
		}
		pool = udp.NewSourcePool(addr, o)
		t.pools[addr] = pool
	}
	u, err := pool.Acquire(flow)
	if err != nil {
		return nil, fmt.Errorf("roce: send from %v: %w", addr, err)
	}
	s := t.sources[u]
	if s == nil {
		s = &source{udp: u, addr: addr.WithZone(""), zone: addr.Zone()}
		s.sock, s.frames = t.wrap(addr, u.Socket)
		t.sources[u] = s
	}
	s.refs++
	return s, nil
}

func (t *Transport) dropSource(s *source) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		t.overMTU += s.udp.Counters().TooBig
		delete(t.sources, s.udp)
		engine.Untap(s.sock)
	}
	s.udp.Release()
}

// cuts reports whether the system cuts bursts into datagrams.
func (s *source) cuts() bool { return s.sock.CutsBursts() }

// write sends bursts of one source address and returns when the system has them. Packets that the
// system does not take within writePatience are lost, as on any network.
func (s *source) write(bursts []*roce.Burst, out []udp.Datagrams, comment string) {
	for i, b := range bursts {
		b.Seal()
		path := b.Path()
		seg := b.SegmentBytes()
		if !b.IsBurst() {
			seg = 0
		}
		dst := path.Dst
		if dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast() {
			dst = dst.WithZone(s.zone)
		}
		out[i] = udp.Datagrams{Dst: netip.AddrPortFrom(dst, roce.UDPPort), Iov: b.Iov(),
			SegmentSize: seg, TOS: path.TClass, TTL: path.HopLimit}
	}
	out[0].Comment = comment
	engine.WriteAll(s.sock, out[:len(bursts)])
	clear(out)
}
