// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"verbena/internal/stats"
)

func snapshots() []stats.Snapshot {
	return []stats.Snapshot{
		{PID: 7, Command: "verbena rping -s", Devices: []stats.Device{
			{Name: "roce_lo", Kind: "RoCEv2", NetDev: "lo", Counters: []stats.Counter{{Name: "rx_packets", Value: 1024}, {Name: "rx_bad_icrc"}}},
		}},
		{PID: 9, Command: "app", Devices: []stats.Device{{Name: "roce_eth0", Kind: "RoCEv2"}}},
	}
}

func TestTableHasEveryProcessAndDevice(t *testing.T) {
	var b bytes.Buffer
	printTable(&b, snapshots(), false)
	for _, want := range []string{"roce_lo (RoCEv2 on lo), process 7: verbena rping -s", "rx_packets  1024", "roce_eth0", "(all counters are 0)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "rx_bad_icrc") {
		t.Errorf("a counter of 0 is shown:\n%s", &b)
	}
	b.Reset()
	printTable(&b, snapshots(), true)
	if !strings.Contains(b.String(), "rx_bad_icrc") {
		t.Errorf("-a leaves a counter out:\n%s", &b)
	}
}

func TestOnlyOneDevice(t *testing.T) {
	got := only(snapshots(), "roce_eth0")
	if len(got) != 1 || got[0].PID != 9 {
		t.Errorf("only = %v", got)
	}
	if got := only(snapshots(), ""); len(got) != 2 {
		t.Errorf("no name: %v", got)
	}
}

func TestJSONIsALineAProcess(t *testing.T) {
	var b bytes.Buffer
	if err := printJSON(&b, snapshots()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	var s stats.Snapshot
	if err := json.Unmarshal([]byte(lines[0]), &s); err != nil || s.Devices[0].Counters[0].Value != 1024 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestUnknownDeviceIsAnError(t *testing.T) {
	o := options{dir: t.TempDir(), device: "roce_none"}
	var b bytes.Buffer
	if err := o.run(t.Context(), &b); err == nil || b.Len() != 0 {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestRunAsksTheProcessesThereAre(t *testing.T) {
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o := options{dir: dir}
	var b bytes.Buffer
	if err := o.run(t.Context(), &b); err != nil || b.String() != "no process has a device open\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	s, err := stats.Serve(dir, "", func() stats.Snapshot { return snapshots()[0] })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b.Reset()
	if err := o.run(t.Context(), &b); err != nil || !strings.Contains(b.String(), "rx_packets") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
