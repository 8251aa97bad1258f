// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"verbena/internal/monotime"
	"verbena/internal/tools/rawbench"
)

// measure is one line of the table, whose rounds give one figure.
type measure struct {
	name   string
	unit   string
	beside string // names the peer
	goal   goal
	rounds int // 0 is as many as asked for
	ours   func(context.Context, *run) (float64, error)
	raw    func(context.Context, *run) (float64, error) // the peer's; nil where nothing compares
}

// The payload of a packet on loopback, whose MTU allows the largest path MTU.
const loopbackPathMTU = 4096

const mebibyte = 1 << 20

// overUDP sends packets through sockets, as those to other hosts do. Without it
// they go through shared memory, as both processes are on this one.
const overUDP = "--no-local"

// topics are the parts of the table.
var topics = slices.Concat([]topic{
	{"RoCEv2", groupsOf(roceMeasures...)},
	{sizesTopic, sizeGroups()},
	{lossTopic, lossGroups()},
	{"Memory", groupsOf(memoryMeasures...)},
	{"Packet ring", groupsOf(ringMeasures...)},
	{"Kernel bypass over veth", frameGroups},
	{"iWARP and TRP", groupsOf(iwarpMeasures...)},
	{"C programs that poll", groupsOf(programMeasures...)},
	{"NTB", groupsOf(ntbMeasures...)},
	{"Waiting without polling", slices.Concat([]group{blockingPings}, groupsOf(streamMeasures...))},
	{"As many burners as cores", loadedGroups},
	{"MPI ranks that poll", rankGroups},
	{"Many", manyGroups},
	{"Strangers", groupsOf(floodMeasures...)},
}, requestTopics)

// roceMeasures are RoCEv2's beside plain UDP sockets.
var roceMeasures = []measure{
	{name: "WRITE 64 KiB, same host", unit: "MB/s", beside: "sockets",
		goal: goal{bound: 0.6, atLeast: true, ratio: true}, ours: writeBandwidth(64 << 10),
		raw: rawStream},
	{name: "WRITE 64 KiB, UDP", unit: "MB/s", beside: "sockets",
		goal: goal{bound: 0.6, atLeast: true, ratio: true}, ours: writeBandwidth(64<<10, overUDP),
		raw: rawStream},
	{name: "WRITE 1 MiB, same host", unit: "MB/s", beside: "sockets",
		goal: goal{bound: 0.6, atLeast: true, ratio: true}, ours: writeBandwidth(1 << 20),
		raw: rawStream},
	{name: "WRITE 1 MiB, UDP", unit: "MB/s", beside: "sockets",
		goal: goal{bound: 0.6, atLeast: true, ratio: true}, ours: writeBandwidth(1<<20, overUDP),
		raw: rawStream},
	{name: "SEND 2 B, one way, polling, same host", unit: "µs", beside: "sockets",
		goal: goal{bound: 1.3, ratio: true}, ours: sendLatency(), raw: rawPing},
	{name: "SEND 2 B, one way, polling, UDP", unit: "µs", beside: "sockets",
		goal: goal{bound: 1.3, ratio: true}, ours: sendLatency(overUDP), raw: rawPing},
	{name: "WRITE 8 B, 1 queue pair, 64 outstanding, same host", unit: "/s",
		goal: goal{bound: 500e3, atLeast: true}, ours: writeRate()},
	{name: "WRITE 8 B, 1 queue pair, 64 outstanding, UDP", unit: "/s",
		goal: goal{bound: 500e3, atLeast: true}, ours: writeRate(overUDP)},
}

var memoryMeasures = []measure{
	{name: "memory of an idle queue pair, of 10,000", unit: "KiB", goal: goal{bound: 16}, rounds: 1,
		ours: idleMemory},
	{name: "memory growth over 10 million operations", unit: "KiB", goal: goal{bound: 1024},
		rounds: 1, ours: memoryGrowth},
}

// ringMeasures have both ends keep their newest packets.
var ringMeasures = []measure{
	{name: "WRITE 64 KiB, UDP, --pcap-ring 64M", unit: "MB/s", beside: "no ring",
		ours: writeBandwidth(64<<10, overUDP, "--pcap-ring", "64M"),
		raw:  writeBandwidth(64<<10, overUDP)},
	{name: "SEND 2 B, one way, UDP, --pcap-ring 64M", unit: "µs", beside: "no ring",
		ours: sendLatency(overUDP, "--pcap-ring", "64M"), raw: sendLatency(overUDP)},
}

// programMeasures are those of unmodified C programs.
var programMeasures = []measure{
	{name: "ib_send_lat 2 B", unit: "µs", beside: "Go", goal: goal{bound: 1.15, ratio: true},
		ours: sendLatencyC().measured, raw: sendLatencyEach},
	{name: "ib_write_bw 64 KiB", unit: "MB/s", beside: "Go",
		goal: goal{bound: 0.9, atLeast: true, ratio: true}, ours: writeBandwidthC().measured,
		raw: writeBandwidth(64 << 10)},
	besideUCX("tag_lat", 8, 20000, "µs", ucxMedian, 1),
	besideUCX("tag_lat", 4096, 20000, "µs", ucxMedian, 1),
	besideUCX("tag_bw", 4096, 100000, "MB/s", ucxBandwidth, mebibyte/1e6),
	besideUCX("tag_bw", 65536, 20000, "MB/s", ucxBandwidth, mebibyte/1e6),
	besideUCX("tag_bw", 1<<20, 2000, "MB/s", ucxBandwidth, mebibyte/1e6),
	besideFabric(64, 20000),
	besideFabric(4096, 20000),
	besideFabric(65536, 5000),
	besideFabric(1<<20, 500),
	{name: "ibv_devices, start to exit", unit: "ms", beside: "rdma-core", goal: goal{bound: 2},
		rounds: 1, ours: startToExit("ibv_devices", false), raw: startToExit("ibv_devices", true)},
}

// besideUCX is a test of ucx_perftest over rc_verbs, beside UCX's own tcp.
func besideUCX(test string, size, count int, unit string, field int, scale float64) measure {
	return measure{name: "ucx_perftest " + test + " " + bytesText(size), unit: unit, beside: "tcp",
		goal: goal{bound: 1, ratio: true, atLeast: test == "tag_bw"},
		ours: ucx("rc_verbs", test, size, count, field, scale).measured,
		raw:  ucx("tcp", test, size, count, field, scale).measured}
}

// besideFabric is fi_pingpong over the verbs provider, beside libfabric's tcp.
func besideFabric(size, count int) measure {
	return measure{name: "fi_pingpong " + bytesText(size), unit: "µs", beside: "tcp",
		goal: goal{bound: 1, ratio: true},
		ours: fabric("verbs", size, count).measured, raw: fabric("tcp", size, count).measured}
}

// writeBandwidth is in 10^6 bytes a second.
func writeBandwidth(size int, flags ...string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		row, err := r.perf(ctx, nil, []string{"write", "bw"},
			append(flags, "-s", strconv.Itoa(size), "-D", strconv.Itoa(r.seconds))...)
		return row.Average * mebibyte / 1e6, err
	}
}

// rawStream sends datagrams as long as those of a WRITE and counts the bytes that would be its
// payload.
func rawStream(ctx context.Context, r *run) (rate float64, err error) {
	const datagram = bthBytes + loopbackPathMTU + icrcBytes
	err = r.raw(ctx, roleStream, func(local netip.Addr, to netip.AddrPort) error {
		res, err := rawbench.RunStream(local, to, rawbench.Stream{
			DatagramBytes: datagram,
			Duration:      monotime.Duration(r.seconds) * monotime.Second,
		})
		if err != nil {
			return err
		}
		rate = res.BytesPerSecond() * loopbackPathMTU / datagram / 1e6
		return nil
	})
	return rate, err
}

func sendLatency(flags ...string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		row, err := r.perf(ctx, nil, []string{"send", "lat"},
			append(flags, "-s", "2", "-n", strconv.Itoa(r.pings))...)
		return row.Typical, err
	}
}

// sendLatencyEach waits for the completion of each SEND, as ib_send_lat does.
func sendLatencyEach(ctx context.Context, r *run) (float64, error) {
	row, err := r.perf(ctx, nil, []string{"send", "lat"}, "-s", "2", "-n", strconv.Itoa(r.pings),
		"-Q", "1")
	return row.Typical, err
}

// rawPing sends datagrams as long as that of a SEND of 2 bytes, padded to 4.
func rawPing(ctx context.Context, r *run) (median float64, err error) {
	const datagram = bthBytes + 4 + icrcBytes
	err = r.raw(ctx, rolePing, func(local netip.Addr, to netip.AddrPort) error {
		res, err := rawbench.RunPing(local, to, datagram, r.pings)
		if err != nil {
			return err
		}
		median = float64(res.Percentile(50)) / float64(monotime.Microsecond)
		return nil
	})
	return median, err
}

func writeRate(flags ...string) func(context.Context, *run) (float64, error) {
	return func(ctx context.Context, r *run) (float64, error) {
		row, err := r.perf(ctx, nil, []string{"write", "bw"},
			append(flags, "-s", "8", "-t", "64", "-n", strconv.FormatInt(r.rateOps, 10))...)
		return row.MsgRate * 1e6, err
	}
}

func idleMemory(ctx context.Context, r *run) (float64, error) {
	cmd := r.own(ctx, "idle", "-d", r.device, "-q", strconv.Itoa(r.idleQPs))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(errOut.String()))
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return n / 1024, err
}

func memoryGrowth(ctx context.Context, r *run) (float64, error) {
	var g growth
	// From the second quarter to the last are half of the operations after the start.
	_, err := r.perf(ctx, g.watch, []string{"write", "bw"}, "-s", "8", "-t", "64", "-n",
		strconv.FormatInt(3*r.flatOps, 10))
	if err != nil {
		return 0, err
	}
	n, ok := g.bytes()
	if !ok {
		return 0, errors.New("the run was too short to see memory grow, or this system has " +
			"no /proc; give more --ops")
	}
	return max(n, 0) / 1024, nil
}
