// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// A variable's name may have the word that stands for the device in its value.
func TestProgramsAreToldTheDevice(t *testing.T) {
	on := &peer{verbena: "verbena", host: "127.0.0.1", device: "roce_lo"}
	cmd := ucx("rc_verbs", "tag_lat", 8, 100, ucxMedian, 1).command(t.Context(), &run{}, on, 4000, &bytes.Buffer{}, 0)
	if !slices.Contains(cmd.Env, "UCX_NET_DEVICES=roce_lo:1") {
		t.Errorf("environment: %q", cmd.Env[len(cmd.Env)-2:])
	}
	cmd = sendLatencyC().command(t.Context(), &run{}, on, 4000, &bytes.Buffer{}, 1)
	if got := cmd.Args[len(cmd.Args)-3:]; !slices.Equal(got, []string{"-p", "4000", "127.0.0.1"}) || cmd.Args[5] != "roce_lo" {
		t.Errorf("arguments: %q", cmd.Args)
	}
}

// perftest divides by a rate of 0 if it does not find that of its clock. An infinite figure once
// kept a whole run from being written.
func TestInfiniteFiguresAreErrors(t *testing.T) {
	for out, wrong := range map[string]bool{
		"2 3000 1.00 9.00 1.50 1.60 0.10 2.00 3.00": false,
		"2 3000 inf inf inf inf inf inf inf":        true,
		"2 3000 nan nan nan nan nan nan nan":        true,
	} {
		both, err := latencies(out)
		if errors.Is(err, errNoNumber) != wrong {
			t.Errorf("%q: %v, %v", out, both, err)
		}
		if !wrong && !slices.Equal(both, []float64{1.5, 2}) {
			t.Errorf("%q: %v", out, both)
		}
	}
}
