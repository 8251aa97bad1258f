// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The sums over all processes do not fall when one ends, whether it has a slot or not.
func TestTotalsDoNotFall(t *testing.T) {
	dir := shortDir(t)
	want := uint64(0)
	check := func(when string) {
		t.Helper()
		sum, _, err := Totals(t.Context(), dir)
		if got := sum["roce_a"]["sent_pkts"]; err != nil || got != want {
			t.Errorf("%s: %d packets, want %d, %v", when, got, want, err)
		}
	}
	for i, name := range []string{"77-1", "78-1", "4711"} {
		last := Snapshot{PID: i, Devices: sent("roce_a", uint64(10+i))}
		s, err := Serve(dir, name, func() Snapshot { return last }, nil)
		if err != nil {
			t.Fatal(err)
		}
		want += uint64(10 + i)
		check(name + " lives")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Retire(last); err != nil {
			t.Error(err)
		}
		check(name + " has ended")
	}
}

// A process that does not answer counts with its record: it is stopped, was killed in another PID
// namespace, or is a zombie.
func TestTotalsCountTheSilent(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "77-1"+suffix)) // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	keptRecord(t, filepath.Join(dir, "77-1"+recordSuffix), Snapshot{PID: os.Getpid(), Time: time.Now(), Devices: sent("roce_a", 10)})
	keptRecord(t, filepath.Join(dir, "77-2"+recordSuffix), Snapshot{PID: os.Getpid(), Time: time.Now(), Devices: sent("roce_a", 3)}) // without a socket
	s, err := Serve(dir, "77-3", func() Snapshot { return Snapshot{Devices: sent("roce_a", 100)} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sum, all, err := Totals(ctx, dir)
	if got := sum["roce_a"]["sent_pkts"]; err != nil || got != 113 || len(all) != 1 {
		t.Errorf("%d packets of %d processes, %v: want 113 of 1", got, len(all), err)
	}
}

// A process that is killed leaves no less than a client has seen, even one that asks often.
func TestRecordIsAsNewAsTheAnswer(t *testing.T) {
	dir := shortDir(t)
	n := uint64(0)
	s, err := Serve(dir, "77-1", func() Snapshot {
		n++
		return Snapshot{PID: 1, Time: time.Now(), Devices: sent("roce_a", n)}
	}, nil)

	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 5 {
		all, err := Collect(t.Context(), dir)
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "77-1"+recordSuffix))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := parseRecord(b)
		if err != nil || kept.Devices[0].Count("sent_pkts") < all[0].Devices[0].Count("sent_pkts") {
			t.Errorf("the record has %v, %v; the answer %v", kept.Devices, err, all[0].Devices)
		}
	}
}

// The command of a process moves no cursor of the terminal that shows it.
func TestSnapshotsArePrintable(t *testing.T) {
	dir := shortDir(t)
	const bad = "a\x1b[2J\n\u009b1mé"
	s, err := Serve(dir, "77-1", func() Snapshot {
		return Snapshot{PID: 1, Command: bad, Version: bad, Identifiers: []Identifier{{State: bad}},
			Devices: []Device{{Name: bad, NetDev: bad, Counters: []Counter{{bad, 1}}, QueuePairs: []QueuePair{{State: bad, Counters: []Counter{{bad, 1}}}}}}}
	}, nil)

	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := Collect(t.Context(), dir)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "77-1"+recordSuffix))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := parseRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Snapshot{all[0], kept} {
		d := s.Devices[0]
		for _, got := range []string{s.Command, s.Version, d.Name, d.NetDev, d.Counters[0].Name, d.QueuePairs[0].State, d.QueuePairs[0].Counters[0].Name} {
			if got != "a?[2J??1mé" {
				t.Errorf("%q", got)
			}
		}
	}
	if got := all[0].Identifiers[0].State; got != "a?[2J??1mé" {
		t.Errorf("%q", got)
	}
}
