// SPDX-License-Identifier: BSD-2-Clause

package replay

import (
	"path/filepath"
	"strings"
	"testing"
)

// deviations lists where rxe departs from the specification and we do not follow, by
// capture: the finding of the comparison.
var deviations = map[string]string{
	// The packet that is too much is refused, as an invalid request; rxe refuses
	// the first one of the message, as an operational error.
	"rxe-op-toolong.pcap": "PSN:7310416",
	// A SEND with invalidate counts as a message; rxe does not count it.
	"rxe-op-sendinv.pcap": "MSN 1, recorded 0",
}

// TestReplayCaptures puts our machines in the place of each end of every
// captured conversation of rxe with itself.
func TestReplayCaptures(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/captures/rxe*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures (%v)", err)
	}
	played, packets := 0, 0
	for _, f := range files {
		list, err := Load(f)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, c := range list {
			for end := range c.Ends {
				p, err := newPlayer(c, end)
				if err != nil {
					t.Fatalf("%s: %v", filepath.Base(f), err)
				}
				err = p.play()
				if want := deviations[filepath.Base(f)]; err != nil && want != "" && end == 1 && strings.Contains(err.Error(), want) {
					t.Logf("known: %s: %v", filepath.Base(f), err)
				} else if err != nil {
					t.Errorf("%s, end %d: %v", filepath.Base(f), end, err)
				}
				played++
				packets += len(c.Packets)
			}
		}
	}
	t.Logf("%d sides, %d packets", played, packets)
}
