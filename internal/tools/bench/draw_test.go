// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each chart has the lines that its rows make; rows of one point, and others, are left out.
func TestDraw(t *testing.T) {
	tcp := 50.0
	row := func(name, unit string, value float64) Result {
		return Result{Name: name, Unit: unit, Value: value, Beside: "TCP", Baseline: &tcp}
	}
	lost := row("TRP WRITE 64 KiB, 1 % lost, 50 µs one way", "MB/s", 40)
	lost.Beside = "none lost"
	results := []Result{
		row("WRITE 64 KiB, UDP", "MB/s", 100), row("WRITE 1 MiB, UDP", "MB/s", 200), row("rare 4 KiB", "MB/s", 3), row("WRITE 64 KiB beside 5 garbage", "MB/s", 9),
		row("fi_pingpong 64 B", "µs", 3), row("fi_pingpong 4 KiB", "µs", 5),
		row("C same host, 64 B, 1 client: requests", "/s", 10), row("C same host, 64 B, 20 clients: requests", "/s", 90), row("C same host, 64 B, 20 clients: server CPU a request", "µs", 1),
		row("UCX rc, 2 ranks: allreduce 8 B", "µs", 1), row("UCX rc, 16 ranks: allreduce 8 B", "µs", 9),
		lost,
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "bench.json")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(f, results); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	drawn, err := drawAll(file, filepath.Join(dir, "charts"))
	if err != nil || len(drawn) != len(figures) {
		t.Fatalf("%v, %v", drawn, err)
	}
	for i, want := range [][]string{{">WRITE, UDP<", ">TCP, beside WRITE, UDP<", ">64 KiB<", ">1 MiB<"}, {">fi_pingpong<", ">4 KiB<"}, {">C same host<", ">20<"}, {">UCX rc<", ">16<"},
		{">TRP WRITE 64 KiB, 50 µs one way<", ">0<", ">1<"}} {
		svg, err := os.ReadFile(drawn[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range append(want, "verbena", "cores") {
			if !strings.Contains(string(svg), w) {
				t.Errorf("%s has no %q", drawn[i], w)
			}
		}
		if strings.Contains(string(svg), "rare") || strings.Contains(string(svg), "garbage") {
			t.Errorf("%s has a row too much", drawn[i])
		}
	}
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := drawAll(file, dir); err == nil {
		t.Error("no rows are drawn")
	}
}
