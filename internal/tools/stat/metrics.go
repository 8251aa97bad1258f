// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"verbena/internal/stats"
)

const (
	// scrapeTimeout bounds one answer: processes that are stopped do not answer.
	scrapeTimeout = 5 * time.Second
	// mostPeers bounds the series of paths. Those of further peers are left out.
	mostPeers = 1000
	// thePort is the number of each device's only port.
	thePort = "1"
)

// Names that the infiniband collector of node_exporter has for a count; a count without one is
// verbena_NAME_total.
var exporterNames = map[string]string{
	"rcvd_bytes":                 "port_data_received_bytes_total",
	"sent_bytes":                 "port_data_transmitted_bytes_total",
	"rcvd_pkts":                  "port_packets_received_total",
	"sent_pkts":                  "port_packets_transmitted_total",
	"rcvd_segments":              "port_packets_received_total",
	"sent_segments":              "port_packets_transmitted_total",
	"duplicate_request":          "duplicate_requests_packets_total",
	"implied_nak_seq_err":        "implied_nak_seq_errors_total",
	"local_ack_timeout_err":      "local_ack_timeout_errors_total",
	"np_cnp_sent":                "np_cnp_packets_sent_total",
	"np_ecn_marked_roce_packets": "np_ecn_marked_roce_packets_received_total",
	"out_of_seq_request":         "out_of_sequence_packets_received_total",
	"rcvd_seq_err":               "packet_sequence_errors_total",
	"rcvd_rnr_err":               "rnr_nak_retry_packets_total",
	"rp_cnp_handled":             "rp_cnp_packets_handled_total",
}

// segmentsOf names the count of packets whose metric a count of segments has where there are none.
var segmentsOf = map[string]string{"rcvd_segments": "rcvd_pkts", "sent_segments": "sent_pkts"}

// metricOf returns the name of the metric of a count.
func metricOf(count string) string {
	if name := exporterNames[count]; name != "" {
		return "node_infiniband_" + name
	}
	return "verbena_" + strings.TrimSuffix(count, "_total") + "_total"
}

var (
	errorsReceived = prometheus.NewDesc("node_infiniband_port_errors_received_total",
		"Malformed packets, and those with a wrong ICRC", []string{"device", "port"}, nil)
	processes = prometheus.NewDesc("verbena_processes",
		"Processes of the user that have the device open", []string{"device"}, nil)
	queuePairs = prometheus.NewDesc("verbena_queue_pairs",
		"Queue pairs by their state", []string{"device", "type", "state"}, nil)
	memoryRegions = prometheus.NewDesc("verbena_memory_regions",
		"Registered memory regions", []string{"device"}, nil)
	inFlight = prometheus.NewDesc("verbena_path_in_flight_bytes",
		"Bytes sent that have neither arrived nor been taken for lost, by peer",
		[]string{"device", "peer"}, nil)
	windowBytes = prometheus.NewDesc("verbena_path_window_bytes",
		"Sum of the windows of the queue pairs of a peer", []string{"device", "peer"}, nil)
	roundTrip = prometheus.NewDesc("verbena_path_round_trip_seconds",
		"Longest smoothed round trip of the queue pairs of a peer", []string{"device", "peer"}, nil)
)

// collector answers a scrape with the counts of all processes of a directory.
type collector struct {
	dir string // immutable

	mu sync.Mutex
	// kept has the highest sum of each device and name: a process that is missed for a while must
	// not look like a restart of its counters. It is guarded by mu.
	kept map[string]map[string]uint64
}

// Describe sends nothing: the names depend on the devices, so the registry checks no collector.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	sum, all, err := stats.Totals(ctx, c.dir)
	if err != nil {
		to <- prometheus.NewInvalidMetric(processes, err)
		return
	}
	for device, counts := range c.keep(sum) {
		sendCounts(to, device, counts)
	}
	sendObjects(to, all)
	sendPaths(to, all)
}

// keep returns the highest sums up to now.
func (c *collector) keep(sum map[string]map[string]uint64) map[string]map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for device, counts := range sum {
		if c.kept[device] == nil {
			c.kept[device] = map[string]uint64{}
		}
		for name, v := range counts {
			c.kept[device][name] = max(c.kept[device][name], v)
		}
	}
	highest := map[string]map[string]uint64{}
	for device, counts := range c.kept {
		highest[device] = maps.Clone(counts)
	}
	return highest
}

// sendCounts sends the counters of a device.
func sendCounts(to chan<- prometheus.Metric, device string, counts map[string]uint64) {
	to <- prometheus.MustNewConstMetric(errorsReceived, prometheus.CounterValue,
		float64(stats.RcvErrors(counts)), device, thePort)
	for name, v := range counts {
		if packets, ok := segmentsOf[name]; ok {
			if _, both := counts[packets]; both {
				continue // a metric has one value
			}
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(metricOf(name),
			"Sum over the processes of the user, ended ones included",
			[]string{"device", "port"}, nil), prometheus.CounterValue, float64(v), device, thePort)
	}
}

// sendObjects sends how many processes, queue pairs and memory regions each device has.
func sendObjects(to chan<- prometheus.Metric, all []stats.Snapshot) {
	type group struct{ device, kind, state string }
	opened, regions, pairs := map[string]int{}, map[string]int{}, map[group]int{}
	for _, s := range all {
		for _, d := range s.Devices {
			opened[d.Name]++
			regions[d.Name] += d.Regions
			for _, q := range d.QueuePairs {
				pairs[group{d.Name, q.Type, q.State}]++
			}
		}
	}
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	for device, n := range opened {
		gauge(processes, n, device)
		gauge(memoryRegions, regions[device], device)
	}
	for g, n := range pairs {
		gauge(queuePairs, n, g.device, g.kind, g.state)
	}
}

// sendPaths sends the measurements of the paths to each peer.
func sendPaths(to chan<- prometheus.Metric, all []stats.Snapshot) {
	type peer struct{ device, addr string }
	type path struct {
		inFlight, window int64
		rtt              time.Duration
	}
	paths := map[peer]path{}
	for _, s := range all {
		for _, d := range s.Devices {
			for _, q := range d.QueuePairs {
				if q.Path == nil || !q.Peer.IsValid() {
					continue
				}
				at := peer{d.Name, q.Peer.Addr().String()}
				p := paths[at]
				p.inFlight += q.Path.InFlight
				p.window += q.Path.WindowBytes
				p.rtt = max(p.rtt, q.Path.RTT)
				paths[at] = p
			}
		}
	}
	peers := slices.SortedFunc(maps.Keys(paths), func(a, b peer) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.addr, b.addr))
	})
	for _, at := range peers[:min(len(peers), mostPeers)] {
		for _, m := range []struct {
			desc *prometheus.Desc
			v    float64
		}{{inFlight, float64(paths[at].inFlight)}, {windowBytes, float64(paths[at].window)},
			{roundTrip, paths[at].rtt.Seconds()}} {
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.v, at.device,
				at.addr)
		}
	}
}
