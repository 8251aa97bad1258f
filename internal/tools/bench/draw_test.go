// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/tools/chart"
)

// sampleReport has rows for all charts, and rows that none has.
func sampleReport() *Report {
	tcp := 50.0
	var results []Result
	add := func(topic, unit string, names ...string) {
		for i, name := range names {
			results = append(results, Result{Topic: topic, Name: name, Unit: unit, Value: float64(i + 2), Beside: "TCP", Baseline: &tcp})
		}
	}
	add(sizesTopic, "MB/s", "WRITE 64 KiB, UDP", "WRITE 64 KiB, same host", "WRITE 1 MiB, UDP", "WRITE 1 MiB, same host", "rare 4 KiB")
	add("NTB", "MB/s", "WRITE 4 KiB, UDP", "garbage 1 MiB")
	add(sizesTopic, "µs", "SEND 64 B, one way, UDP", "SEND 4 KiB, one way, UDP")
	add("", "/s", "C same host, 64 B, 1 client: requests", "C same host, 64 B, 20 clients: requests", "C veth, 64 B, 1 client: requests", "C veth, 64 B, 20 clients: requests")
	results[len(results)-1].Value, results[len(results)-1].Baseline = 70, new(float64)
	*results[len(results)-1].Baseline = 60
	add("", "µs", "C same host, 64 B, 20 clients: server CPU a request", "UCX rc, 2 ranks: allreduce 8 B", "UCX rc, 16 ranks: allreduce 8 B")
	add(lossTopic, "MB/s", "WRITE, 1 Gbit, 10 ms, 0 % lost", "WRITE, 1 Gbit, 10 ms, 0.1 % lost")
	return &Report{chart.Machine{Date: "2026-01-02", Processor: "a <processor>", Cores: 2}, results}
}

// Each chart has the lines that its rows make; rows of one point, and others, are left out.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bench.json")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := sampleReport().write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := report.drawAll(filepath.Join(dir, "charts"))
	if err != nil || len(all) != len(figures) {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range [][]string{
		{">WRITE, UDP<", ">WRITE, same host<", ">TCP<", ">64 KiB<", ">1 MiB<", "WRITE 64 KiB, UDP: 2 MB/s, TCP 50 MB/s"},
		{">SEND, one way, UDP<", ">4 KiB<"}, {">same host<", ">TCP beside same host<", ">TCP beside veth<", ">20<"}, {">UCX rc<", ">16<"},
		{">WRITE<", ">0<", ">0.1<"},
	} {
		for _, path := range []string{all[i].light, all[i].dark} {
			svg, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range append(want, ">2026-01-02: a &lt;processor&gt;, 2 cores") {
				if !strings.Contains(string(svg), w) {
					t.Errorf("%s has no %q", path, w)
				}
			}
			if strings.Contains(string(svg), ">rare<") || strings.Contains(string(svg), "garbage") {
				t.Errorf("%s has a row too much", path)
			}
		}
	}
	report.Results = report.Results[:5]
	all, err = report.drawAll(filepath.Join(dir, "charts"))
	if left, _ := filepath.Glob(filepath.Join(dir, "charts", "*")); err != nil || len(all) != 1 || len(left) != 2 {
		t.Errorf("of one chart: %v, %v, %v", all, left, err)
	}
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readReport(file); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("a list is read: %v", err)
	}
}
