// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"net/netip"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/trp"
)

// Associations finds TRP in the datagrams of a capture: those between a client that has sent a
// Request and its server. The server answers from another port than the Request's. The zero value
// is ready.
type Associations struct {
	known map[association]struct{}
	order []association // the oldest first; at most maxConnections
}

type association struct {
	client netip.AddrPort
	server netip.Addr
}

// Has reports whether a datagram is TRP's.
func (s *Associations) Has(d *pcap.Datagram) bool {
	from, to := association{d.Src, d.Dst.Addr()}, association{d.Dst, d.Src.Addr()}
	for _, a := range []association{from, to} {
		if _, ok := s.known[a]; ok {
			return true
		}
	}
	var p trp.Packet
	if d.Truncated || p.Parse(d.Payload) != trp.WellFormed || p.Opcode != trp.Request ||
		p.PSN != 0 {
		return false
	}
	if s.known == nil {
		s.known = map[association]struct{}{}
	}
	if len(s.order) == maxConnections {
		delete(s.known, s.order[0])
		s.order = s.order[1:]
	}
	s.known[from] = struct{}{}
	s.order = append(s.order, from)
	return true
}
