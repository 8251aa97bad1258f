// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"testing"

	"verbena/internal/congestion"
)

// TestSampleOfAPath: a sample has the values that a sender writes into its capture.
func TestSampleOfAPath(t *testing.T) {
	path := congestion.Path{RTT: 1, MinRTT: 2, WindowBytes: 3, PaceRate: 4, InFlight: 5, Lost: 6,
		Repeated: 7, Marked: 8, Notified: 9}
	text, err := path.AppendText(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Sample{RTT: 1, MinRTT: 2, Window: 3, Pace: 4, InFlight: 5, Lost: 6, Repeated: 7,
		Marked: 8, Notices: 9}
	if s, ok := parseSample("qpn=0x000011 " + string(text)); !ok || s != want {
		t.Errorf("%s is %+v, %v, want %+v", text, s, ok, want)
	}
}
