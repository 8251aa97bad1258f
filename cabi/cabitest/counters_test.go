// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"strconv"
	"strings"
	"testing"
)

// TestCountersAreThoseOfNow: a program reads its counters while it runs, and the next one reads
// them after its end.
func TestCountersAreThoseOfNow(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	command := verbena(t)
	env := []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	out, complaints := outputOf(t, command, env, "run", compile(t, "counters"))
	if complaints != "" {
		t.Errorf("complaints: %s", complaints)
	}
	sent, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || sent == 0 {
		t.Fatalf("sent_pkts is %q", out)
	}
	const port = "/sys/class/infiniband/roce_lo/ports/1/"
	out, _ = outputOf(t, command, env, "run", "cat", port+"hw_counters/sent_pkts", port+"counters/port_xmit_packets", port+"hw_counters/link_downed")
	var got, again, down int
	for i, v := range []*int{&got, &again, &down} {
		if lines := strings.Fields(out); len(lines) == 3 {
			*v, _ = strconv.Atoi(lines[i])
		}
	}
	if got < sent || again != got || down != 0 {
		t.Errorf("after %d packets: %q", sent, out)
	}
}
