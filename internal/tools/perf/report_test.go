// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestBandwidthTableIsPerftests(t *testing.T) {
	var b bytes.Buffer
	o, _ := parse(t, "write", "bw", "-a")
	r := reporter{w: &b, o: o}
	r.bandwidth(BWRow{Size: 2, Count: 200, Peak: 0.08, Average: 0.01, MsgRate: 0.005809})
	r.bandwidth(BWRow{Size: 8388608, Count: 200, Peak: 81.01, Average: 76.17, MsgRate: 0.000010})
	// As ib_write_bw 4.5 prints them.
	want := " 2          200              0.08               0.01   \t\t   0.005809\n" +
		" 8388608    200              81.01              76.17  \t\t   0.000010\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}

func TestHeadingTellsWhoTalks(t *testing.T) {
	var b bytes.Buffer
	o, _ := parse(t, "send", "lat", "")
	r := reporter{w: &b, o: o}
	offer := messages()[1].Offer
	r.begin("roce_lo", offer, offer)
	for _, want := range []string{"Send Latency Test", "Device         : roce_lo", "Mtu             : 4096[B]", "QPN 0x0011", "GID: 127.0.0.1", "t_typical[usec]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestMachineFormats(t *testing.T) {
	row := BWRow{Size: 8, Count: 10, Peak: 2.5, Average: 1.25, Unit: "MB/sec", MsgRate: 0.5}
	o, _ := parse(t, "write", "bw", "--json")
	var b bytes.Buffer
	r := reporter{w: &b, o: o}
	r.begin("x", messages()[1].Offer, messages()[1].Offer)
	r.bandwidth(row)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Test       string
		Parameters Hello
		Results    []BWRow
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Test != "write bw" || len(got.Results) != 1 || got.Results[0] != row {
		t.Errorf("%s: %+v, %v", &b, got, err)
	}
	if got.Parameters.MTU != 4096 {
		t.Errorf("parameters %+v: not the MTU used", got.Parameters)
	}
	o, _ = parse(t, "write", "bw", "--csv")
	b.Reset()
	r = reporter{w: &b, o: o}
	r.bandwidth(row)
	if err := r.end(); err != nil || b.String() != "bytes,iterations,bw_peak,bw_average,unit,msg_rate_mpps\n8,10,2.5,1.25,MB/sec,0.5\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestMeterFindsTheBestWindow(t *testing.T) {
	start := time.Unix(0, 0)
	m := newMeter(start)
	m.add(start.Add(10*time.Millisecond), 1000) // 100 kB/s
	m.add(start.Add(15*time.Millisecond), 1000)
	m.add(start.Add(20*time.Millisecond), 4000) // 500 kB/s over the window
	m.add(start.Add(40*time.Millisecond), 0)
	r := m.result(start.Add(60*time.Millisecond), 6)
	if r.Bytes != 6000 || r.PeakBPS != 500_000 || r.bytesPerSecond() != 100_000 || r.messagesPerSecond() != 100 {
		t.Errorf("%+v", r)
	}
	if both := r.plus(r); both.Bytes != 12000 || both.bytesPerSecond() != 200_000 || both.PeakBPS != 1_000_000 {
		t.Errorf("both directions: %+v", both)
	}
}

func TestLatenciesAreSummarized(t *testing.T) {
	l := newLatencies()
	for i := 1; i <= 1000; i++ {
		l.add(time.Duration(i) * time.Microsecond)
	}
	l.add(time.Hour) // counts as the slowest that can be held
	r := l.result(2, time.Second)
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if r.Count != 1001 || !near(r.Min, 1) || !near(r.Typical, 501) || !near(r.P99, 991) || r.Max != 60e6 || r.PerSecond != 1001 {
		t.Errorf("%+v", r)
	}
}

func TestPeakIsNeverBelowTheAverage(t *testing.T) {
	r := BWResult{Messages: 1, Bytes: 10, TookNS: 3e9, PeakBPS: 3} // 3.33 bytes a second
	if row := bwRow(10, r, false); row.Peak < row.Average {
		t.Errorf("peak %g, average %g", row.Peak, row.Average)
	}
}

// The losses of a service stand below its line, and in a column of their own.
func TestLossIsReported(t *testing.T) {
	arrived := int64(98)
	bw := BWRow{Size: 8, Count: 100, Unit: "MB/sec", Arrived: &arrived}
	lat := LatResult{Size: 8, Count: 90, Lost: 10}
	for _, c := range []struct {
		metric, line string
		print        func(*reporter)
		want         []string
	}{
		{"bw", "-c UD", func(r *reporter) { r.bandwidth(bw) }, []string{" 2 of these messages were lost\n"}},
		{"lat", "-c UC", func(r *reporter) { r.latency(lat) }, []string{" 10 messages more had no answer\n"}},
		{"bw", "-c UD --csv", func(r *reporter) { r.bandwidth(bw) }, []string{",messages_arrived\n", ",98\n"}},
		{"lat", "-c UD --csv", func(r *reporter) { r.latency(lat) }, []string{",lost\n", ",10\n"}},
		{"bw", "-c UD --json", func(r *reporter) { r.bandwidth(bw) }, []string{`"connection": "UD"`, `"messages_arrived": 98`}},
	} {
		var b bytes.Buffer
		o, err := parse(t, "send", c.metric, c.line)
		if err != nil {
			t.Fatal(err)
		}
		r := reporter{w: &b, o: o}
		c.print(&r)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s %s: no %q in\n%s", c.metric, c.line, want, &b)
			}
		}
	}
}
