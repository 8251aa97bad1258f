// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"cmp"
	"maps"
	"slices"

	"verbena/internal/stats"
)

// identifiers returns the identifiers for `verbena stat`. The caller holds no lock.
func (m *manager) identifiers() (list []stats.Identifier) {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.ids))
	m.mu.Unlock()
	// Pointers, for which the program has the code of a sort already: 32 KB less.
	var looks []*stats.Identifier
	for _, id := range ids {
		looks = append(looks, id.look())
	}
	slices.SortFunc(looks, func(a, b *stats.Identifier) int {
		return cmp.Or(a.Local.Compare(b.Local), a.Peer.Compare(b.Peer), cmp.Compare(a.QPN, b.QPN))
	})
	for _, look := range looks {
		list = append(list, *look)
	}
	return list
}

// look returns the identifier as `verbena stat` shows it.
func (id *ID) look() *stats.Identifier {
	id.mu.Lock()
	defer id.mu.Unlock()
	s := &stats.Identifier{PortSpace: id.ps.String(), State: id.state.String(), Local: id.local,
		Peer: id.peer}
	if id.at.verbs != nil {
		s.Device = id.at.verbs.Info().Name
	}
	if id.qp != nil {
		s.QPN = uint32(id.qp.QPN())
	}
	return s
}
