// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestLocalPath sees by which way packets go.
func TestLocalPath(t *testing.T) {
	byMemory := map[bool]bool{}
	onBothPaths(t, func(t *testing.T) {
		a, b := rcPair(t, 4096)
		pattern(a.buf, 1)
		wantStatus(t, a.write(4096, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
		counts := map[string]uint64{}
		for _, c := range a.ctx.Counters() {
			counts[c.Name] = c.Value
		}
		if n := counts["local_sent_pkts"]; n != 0 && n != counts["sent_pkts"] || counts["sent_pkts"] == 0 {
			t.Errorf("%d of %d packets by memory", n, counts["sent_pkts"])
		}
		byMemory[counts["local_sent_pkts"] != 0] = true
	})
	if len(byMemory) != 2 {
		t.Errorf("by memory: %v, whatever was asked for", byMemory)
	}
}

// TestDatagramsTakeUDP: UD stays on sockets within a host.
func TestDatagramsTakeUDP(t *testing.T) {
	a, b := datagrams(t, 4096), datagrams(t, 4096)
	_, gid := a.gidOf("127.0.0.1")
	sent, local := a.counter("sent_pkts"), a.counter("local_sent_pkts")
	b.recv(1, 4096)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}, AH: a.handle(0, gid), RemoteQPN: b.qp.QPN(), RemoteQKey: testQKey}).Status, ib.WCSuccess)
	b.one()
	if a.counter("sent_pkts") != sent+1 || a.counter("local_sent_pkts") != local {
		t.Errorf("%d packets, %d of them by memory", a.counter("sent_pkts")-sent, a.counter("local_sent_pkts")-local)
	}
}
