// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"slices"

	"verbena/internal/cm/ibcm"
	"verbena/internal/cm/iwcm"
)

// counterNames are the names of the values of counts, in its order.
func counterNames() []string {
	var names []string
	for i := range len(ibcm.Counters{}) {
		names = append(names, "ibcm_"+ibcm.Counter(i).String())
	}
	for i := range len(iwcm.Counters{}) {
		names = append(names, "iwcm_"+iwcm.Counter(i).String())
	}
	return append(names, "ntb_bad_mads")
}

// counts returns the counts of the protocols: `verbena stat` shows it.
func (m *manager) counts() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.ib.agent.Counters()
	for i, n := range m.ntb.agent.Counters() {
		of[i] += n
	}
	return slices.Concat(of[:], m.iw.count[:], []uint64{m.ntb.links.bad.Load()})
}
