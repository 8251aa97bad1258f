// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"verbena/internal/congestion"
	"verbena/internal/qp"
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

func tables(o options, all []stats.Snapshot, before *rates) string {
	var b bytes.Buffer
	o.printTables(&b, all, before)
	return b.String()
}

func TestTableHasEveryProcessAndDevice(t *testing.T) {
	got := tables(options{}, snapshots(), &rates{})
	for _, want := range []string{"roce_lo (RoCEv2 on lo), process 7: verbena rping -s", "rx_packets  1024", "roce_eth0", "(all counters are 0)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "rx_bad_icrc") {
		t.Errorf("a counter of 0 is shown:\n%s", got)
	}
	if got := tables(options{zeros: true}, snapshots(), &rates{}); !strings.Contains(got, "rx_bad_icrc") {
		t.Errorf("-a leaves a counter out:\n%s", got)
	}
}

// connected are processes with queue pairs of every carrier.
func connected() []stats.Snapshot {
	peer := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	return []stats.Snapshot{
		{PID: 7, Command: "ib_write_bw", Devices: []stats.Device{{Name: "roce_eth0", Kind: "RoCEv2", QueuePairs: []stats.QueuePair{
			{QPN: 0x12ab, Type: "RC", State: "RTS", Via: "udp", Peer: peer("10.0.0.2:4791"), PeerQPN: 0x45,
				SQPSN: 0xfffffe, RQPSN: 9, Sends: 4, Recvs: 5, Flow: &qp.Flow{Outstanding: 3, Credits: 2, Retries: 6, RNRRetries: 7},
				Counters: []stats.Counter{{Name: "sent_bytes", Value: 1500}, {Name: "rcvd_bytes", Value: 20}, {Name: "rcvd_seq_err", Value: 4}, {Name: "rcvd_rnr_err", Value: 2}, {Name: "rcvd_error_nak", Value: 1}},
				Path:     &congestion.Path{RTT: 1034 * time.Microsecond, MinRTT: 12500, WindowBytes: 2 << 20, PaceRate: 116_000_000, InFlight: 900, Lost: 3, Repeated: 4, Marked: 5, Notified: 6}},
			{QPN: 0x12ac, Type: "RC", State: "RTS", Via: "shared-memory", Peer: peer("10.0.0.1:4791"), PeerQPN: 0x46, Flow: &qp.Flow{Credits: -1, Retries: 7}},
			{QPN: 0x12ad, Type: "UD", State: "INIT"},
		}}}},
		{PID: 9, Command: "app", Devices: []stats.Device{
			{Name: "iwarp_eth0", Kind: "iWARP", QueuePairs: []stats.QueuePair{
				{QPN: 0x77, Type: "RC", State: "RTS", Via: "tcp", Peer: peer("10.0.0.2:50001"), Path: &congestion.Path{RTT: 2 * time.Second}}}},
			{Name: "ntb0", Kind: "NTB", QueuePairs: []stats.QueuePair{{QPN: 0x78, Type: "RC", State: "RTS", Via: "ntb", PeerQPN: 0x79}}},
		}},
	}
}

// Each queue pair has a line. Where nothing is measured it says so.
func TestQueuePairsAreShown(t *testing.T) {
	got := strings.Split(tables(options{qps: true}, connected(), &rates{}), "\n")
	for _, want := range []string{
		"0x0012ab RC RTS udp 10.0.0.2 0x000045 0xfffffe 0x000009 4 5 3 2 6 7 1.5 kB 20 B",
		"0x0012ab 1.03 ms 12.5 µs 2.1 MB 116.0 MB/s 900 B 3 4 5 6",
		"0x0012ac RC RTS shared-memory 10.0.0.1 0x000046 0x000000 0x000000 0 0 0 - 7 0 - -",
		"0x0012ad UD INIT - - 0x000000 0x000000 0 0 - - - 0 - -",
		"0x000077 RC RTS tcp 10.0.0.2:50001 0x000000 0x000000 0 0 - - - 0 - -",
		"0x000077 2.00 s - - - - 0 0 0 0",
		"0x000078 RC RTS ntb 0x000079 0x000000 0x000000 0 0 - - - 0 - -",
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("no line %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		filter filter
		want   string // pid/device:queue pairs
	}{
		{filter{}, "7/roce_eth0:3 9/iwarp_eth0:1 9/ntb0:1"},
		{filter{device: "ntb0"}, "9/ntb0:1"},
		{filter{pid: 7}, "7/roce_eth0:3"},
		{filter{peer: netip.MustParseAddr("10.0.0.2")}, "7/roce_eth0:1 9/iwarp_eth0:1"},
		{filter{pid: 9, peer: netip.MustParseAddr("10.0.0.2")}, "9/iwarp_eth0:1"},
		{filter{pid: 8}, ""},
	} {
		all := connected()
		var got []string
		for _, s := range c.filter.of(all) {
			for _, d := range s.Devices {
				got = append(got, fmt.Sprintf("%d/%s:%d", s.PID, d.Name, len(d.QueuePairs)))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.filter, got, c.want)
		}
		if !reflect.DeepEqual(all, connected()) {
			t.Errorf("%+v changes what the next poll compares with", c.filter)
		}
	}
}

func TestPeerMustBeAnAddress(t *testing.T) {
	o := options{dir: t.TempDir(), peer: "server"}
	if err := o.run(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--peer server") {
		t.Errorf("%v", err)
	}
}

// A rate is the growth of a counter by the clock of the process.
func TestRates(t *testing.T) {
	at := time.Unix(1700000000, 0)
	all, later := snapshots(), snapshots()
	var before rates
	all[0].Time, later[0].Time = at, at.Add(2*time.Second)
	later[0].Devices[0].Counters[0].Value += 500
	if got := tables(options{}, all, &before); strings.Contains(got, "/s") {
		t.Errorf("a rate without a poll before:\n%s", got)
	}
	before.note(all)
	if got := tables(options{}, later, &before); !strings.Contains(got, "1524  250/s") {
		t.Errorf("no rate of 250/s in\n%s", got)
	}
	pairs, more := connected()[:1], connected()[:1]
	pairs[0].Time, more[0].Time = at, at.Add(2*time.Second)
	more[0].Devices[0].QueuePairs[0].Counters[0].Value += 3000
	before.note(pairs)
	if got := tables(options{qps: true}, more, &before); !strings.Contains(got, "1.5 kB/s") {
		t.Errorf("no rate of a queue pair in\n%s", got)
	}
	before.note(all)
	later[0].Command = "another program under the same number"
	if got := tables(options{}, later, &before); strings.Contains(got, "/s") {
		t.Errorf("a rate of another process:\n%s", got)
	}
}

// The names and units are documented: docs/tools.md.
func TestJSONOfAQueuePair(t *testing.T) {
	b, err := json.Marshal(connected()[0].Devices[0].QueuePairs[0])
	want := `{"qpn":4779,"type":"RC","state":"RTS","via":"udp","peer":"10.0.0.2:4791","peer_qpn":69,"sq_psn":16777214,"rq_psn":9,"sends_posted":4,"recvs_posted":5,` +
		`"path":{"rtt_ns":1034000,"rtt_var_ns":0,"min_rtt_ns":12500,"window_bytes":2097152,"pace_bytes_per_second":116000000,"in_flight_bytes":900,` +
		`"lost_packets":3,"retransmitted_packets":4,"ecn_marked_packets":5,"congestion_notifications":6},` +
		`"flow":{"outstanding_packets":3,"credits":2,"retries_left":6,"rnr_retries_left":7},"counters":[{"name":"sent_bytes","value":1500},{"name":"rcvd_bytes","value":20},` +
		`{"name":"rcvd_seq_err","value":4},{"name":"rcvd_rnr_err","value":2},{"name":"rcvd_error_nak","value":1}]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v; want\n%s", b, err, want)
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
	o := options{dir: t.TempDir(), filter: filter{device: "roce_none"}}
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
	s, err := stats.Serve(dir, "", func() stats.Snapshot { return snapshots()[0] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b.Reset()
	if err := o.run(t.Context(), &b); err != nil || !strings.Contains(b.String(), "rx_packets") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestObjectsAreShown(t *testing.T) {
	addr := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	all := []stats.Snapshot{{PID: 7, Command: "app", Identifiers: []stats.Identifier{
		{PortSpace: "TCP", State: "listening", Local: addr("0.0.0.0:7174")}, {Device: "roce_eth0", PortSpace: "TCP", State: "established", Local: addr("10.0.0.1:7174"), Peer: addr("10.0.0.2:5"), QPN: 0x12ab},
		{Device: "other", PortSpace: "IB", State: "bound"},
	}, Devices: []stats.Device{
		{Name: "roce_eth0", PDs: []stats.PD{{PDN: 1, Context: 2, Users: 3}}, CQs: []stats.CQ{{CQN: 4, Context: 2, Depth: 64, Users: 2}},
			SRQs: []stats.SRQ{{SRQN: 5, Context: 2, Recvs: 9, Users: 1}, {SRQN: 6, Context: 2, TM: true, Recvs: 3, Tags: 2}}, MRs: []stats.MR{{PDN: 1, Context: 2, Length: 4000}, {PDN: 1, Context: 2, Length: 8000}, {PDN: 1, Context: 9}}, Regions: 3},
	}}}
	got := strings.Split(tables(options{qps: true, more: true}, all, &rates{}), "\n")
	for _, want := range []string{
		"protection domain 1 2 3 2 memory regions, 12.0 kB", "completion queue 4 2 2 depth 64", "shared receive queue 5 2 1 9 receives posted", "shared receive queue 6 2 0 3 receives and 2 with tags posted",
		"identifier - - - TCP listening 0.0.0.0:7174", "identifier - - - TCP established 10.0.0.1:7174 to 10.0.0.2:5, queue pair 0x0012ab",
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("no line %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if text := strings.Join(got, "\n"); strings.Contains(text, "bound") {
		t.Errorf("an identifier of another device is shown:\n%s", text)
	}
	if text := tables(options{more: true}, snapshots()[1:], &rates{}); !strings.Contains(text, "(no objects)") {
		t.Errorf("%s", text)
	}
}
