package verbs_test

import (
	"testing"

	"verbena/ib"
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
