// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"testing"

	"verbena/internal/cm/ibcm"
)

// Each peer has to answer a probe before its request is raised, and does.
func TestPeersShowThatTheyAreThere(t *testing.T) {
	for name, kind := range map[string]Kind{"RoCE": RoCE, "NTB": NTB} {
		t.Run(name, func(t *testing.T) {
			at := loopback4
			if kind == NTB {
				joinByMemory(t)
				at = netip.MustParseAddr("10.99.0.2")
			}
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			l := b.listeningOf(kind, at, 1)
			client := a.resolvedOf(kind, l.LocalAddr())
			f.establish(client, l)
			m := b.ib
			if kind == NTB {
				m = b.ntb.ibManager
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if n := m.agent.Counters(); n[ibcm.Held] != 1 || n[ibcm.Probed] != 2 {
				t.Errorf("%d requests were held, %d probes sent", n[ibcm.Held], n[ibcm.Probed])
			}
		})
	}
}
