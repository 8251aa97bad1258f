// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"verbena/internal/monotime"
)

// A path is logged when it has changed, and once a round trip at most.
func TestLog(t *testing.T) {
	const ms = monotime.Time(monotime.Millisecond)
	var l Log
	for i, c := range []struct {
		at   monotime.Time
		path Path
		want bool
	}{
		{0, Path{}, false}, // nothing is known
		{0, Path{WindowBytes: 1}, true},
		{ms / 2, Path{WindowBytes: 2}, false}, // too soon
		{ms, Path{WindowBytes: 1}, false},     // no news
		{ms, Path{WindowBytes: 2, RTT: 10 * monotime.Millisecond}, true},
		{10 * ms, Path{WindowBytes: 3}, false}, // within a round trip
		{11 * ms, Path{WindowBytes: 3}, true},
	} {
		if got := l.Add(c.at, c.path); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// The text has the names and values of the JSON, in its order.
func TestPathAsText(t *testing.T) {
	p := Path{RTT: 1, RTTVar: 2, MinRTT: 3, WindowBytes: 4, PaceRate: 5, InFlight: 6, Lost: 7, Repeated: 8, Marked: 9, Notified: 10}
	text, _ := p.AppendText(nil)
	b, err := json.Marshal(p)
	want := strings.NewReplacer(`{"`, "", `":`, "=", `,"`, " ", "}", "").Replace(string(b))
	if err != nil || string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if n := strings.Count(want, "="); n != strings.Count(fmt.Sprintf("%+v", p), ":") {
		t.Errorf("%d values in JSON, of %+v", n, p)
	}
}

// A window's pace is the rate at which Sent lets bytes go.
func TestPathHasThePace(t *testing.T) {
	var w Window
	w.Start(DeliveryRate)
	if p := w.Path(); p.PaceRate != 0 || p.WindowBytes != Initial {
		t.Errorf("%+v before any sample", p)
	}
	w.Sample(0, 10*monotime.Millisecond, Initial, true)
	rate := w.Path().PaceRate
	for range 10 {
		w.Sent(0, int(rate)/10)
	}
	if took := w.Pace(0).Sub(0) + burstTime; took < 999*monotime.Millisecond || took > 1001*monotime.Millisecond {
		t.Errorf("%d bytes take %v, want a second", rate, took)
	}
}
