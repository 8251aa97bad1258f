// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"net"
	"time"

	"github.com/spf13/pflag"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/tools/cli"
)

// Bounds, on both sides.
const (
	// half of ib.MaxMessage: each queue pair sets aside two messages on each side
	maxSize   = 1 << 30
	maxQPs    = device.MaxQP
	maxDepth  = 1 << 15
	maxInline = 512
	maxMemory = 8 << 30 // bytes of message memory a side sets aside

	smallestOfAll = 2
	largestOfAll  = 8 << 20
	atomicBytes   = 8
)

// test names an operation and the metric to measure.
type test struct {
	op     string // write, read, send, atomic
	metric string // bw, lat
}

func (t test) bandwidth() bool { return t.metric == "bw" }

// The latency tests of a ping-pong; the first watches memory instead of
// completions.
var (
	writeLatency = test{op: "write", metric: "lat"}
	sendLatency  = test{op: "send", metric: "lat"}
)

// noun returns the name of the operation in a sentence.
func (t test) noun() string {
	return map[string]string{"write": "RDMA WRITE", "read": "RDMA READ", "send": "SEND",
		"atomic": "atomic"}[t.op]
}

// title is the heading of perftest's table.
func (t test) title() string {
	name := map[string]string{"write": "RDMA_Write", "read": "RDMA_Read", "send": "Send",
		"atomic": "Atomic FETCH_AND_ADD"}[t.op]
	if t.bandwidth() {
		return name + " BW Test"
	}
	return name + " Latency Test"
}

// defaultSize is perftest's.
func (t test) defaultSize() int {
	switch {
	case t.op == "atomic":
		return atomicBytes
	case t.bandwidth():
		return 65536
	}
	return 2
}

// defaultInline is perftest's: short messages of latency tests go inline.
func (t test) defaultInline() int {
	switch t {
	case writeLatency:
		return 220
	case sendLatency:
		return 236
	}
	return 0
}

func (t test) defaultIters() int64 {
	if t.bandwidth() {
		return 5000
	}
	return 1000
}

// format of the results.
type format int

const (
	formatTable format = iota
	formatJSON
	formatCSV
)

// options of one side.
type options struct {
	test     test
	dev      cli.Device
	host     string // empty is the server
	port     int    // TCP
	ibPort   int
	gidIndex int

	// Options that the client decides.
	size     int
	sizeFlag *pflag.Flag // nil where the size is fixed
	all      bool
	iters    int64 // 0 is the default
	duration time.Duration
	qps      int
	depth    int
	inline   int
	mtuBytes int
	bidir    bool
	events   bool
	rdmacm   bool
	cqMod    int     // SENDs of a latency test whose completions are waited for at once
	service  service // after complete
	datagram int     // the longest message; 0 is no bound

	connection string
	adopted    bool // the client has decided
	seconds    int
	gbits      bool
	json       bool
	csv        bool
	plot       string // a file

	patience  time.Duration  // how long a connection by -R may take to come about
	listening func(net.Addr) // if set: called when the server can be reached
}

func (o *options) flags(fs *pflag.FlagSet) {
	o.patience = cli.ConnectTimeout
	fs.SortFlags = false
	if o.test.op != "atomic" {
		fs.IntVarP(&o.size, "size", "s", o.test.defaultSize(),
			"message size in `BYTES`, up to 1 GiB; each queue pair needs memory for two")
		fs.BoolVarP(&o.all, "all", "a", false, "all sizes from 2 to 8388608 bytes")
		o.sizeFlag = fs.Lookup("size")
	}
	fs.StringVarP(&o.connection, "connection", "c", "RC",
		"measure over `RC`, UC or UD, if it has the operation")
	fs.Int64VarP(&o.iters, "iters", "n", 0,
		"send `N` messages per size and queue pair (default by test and size)")
	fs.IntVarP(&o.seconds, "duration", "D", 0, "run each size for `SECONDS` instead")
	if o.test.bandwidth() {
		fs.IntVarP(&o.qps, "qp", "q", 1, "use `N` queue pairs")
		fs.IntVarP(&o.depth, "tx-depth", "t", 128,
			"keep `N` messages outstanding on each queue pair")
		fs.BoolVarP(&o.bidir, "bidirectional", "b", false, "measure both directions at once")
	}
	fs.IntVarP(&o.inline, "inline_size", "I", o.test.defaultInline(), "send up to `BYTES` inline")
	fs.IntVarP(&o.mtuBytes, "mtu", "m", 0,
		"path MTU in `BYTES` (default the largest of both ports)")
	if o.test == sendLatency {
		fs.IntVarP(&o.cqMod, "cq-mod", "Q", latencyDepth,
			"wait for the completions after every `N` SENDs; ib_send_lat waits after each")
	}
	fs.BoolVarP(&o.events, "events", "e", false, "sleep on completion events (default poll)")
	fs.BoolVarP(&o.rdmacm, "rdma_cm", "R", false,
		"connect by the connection manager; HOST is then an RDMA address")
	fs.Lookup("rdma_cm").Usage += " (also --rdmacm)"
	fs.IntVarP(&o.port, "port", "p", 18515, "listen on or connect to TCP port `PORT`")
	o.dev.NameFlag(fs, "d")
	fs.IntVarP(&o.ibPort, "ib-port", "i", 1, "use `PORT` of the device")
	fs.IntVarP(&o.gidIndex, "gid-index", "x", cli.AnyGID,
		"use the local GID at `INDEX` (default: chosen, IPv4 first)")
	if o.test.bandwidth() {
		fs.BoolVar(&o.gbits, "report_gbits", false, "report Gb/sec instead of MB/sec (2^20 bytes)")
	}
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	if o.sizeFlag != nil {
		fs.StringVar(&o.plot, "plot", "",
			"draw the results of --all, of a client, into `FILE` as SVG")
	}
	o.dev.WireFlags(fs)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "rdmacm" {
			name = "rdma_cm"
		}
		return pflag.NormalizedName(name)
	})
}

// complete fills in options that the test does not offer and checks the rest.
func (o *options) complete() error {
	if o.test.op == "atomic" {
		o.size = atomicBytes
	}
	if !o.test.bandwidth() {
		o.qps, o.depth = 1, 1
	}
	o.duration = time.Duration(o.seconds) * time.Second
	var err error
	if o.service, err = parseService(o.connection); err != nil {
		return cli.Usagef("--connection: %w", err)
	}
	if o.service == serviceUD && o.test.op == "send" {
		if err := o.bound(maxDatagram, "the largest datagram"); err != nil {
			return err
		}
	}
	if err := o.checkTogether(); err != nil {
		return err
	}
	if err := cli.CheckRanges(
		cli.Range{Option: "--size", Value: o.size, Least: 1, Most: maxSize, Unit: "bytes"},
		cli.Range{Option: "--qp", Value: o.qps, Least: 1, Most: maxQPs, Unit: "queue pairs"},
		cli.Range{Option: "--tx-depth", Value: o.depth, Least: 1, Most: maxDepth, Unit: "messages"},
		cli.Range{Option: "--inline_size", Value: o.inline, Most: maxInline, Unit: "bytes"},
		cli.PortRange("--port", o.port),
		cli.Range{Option: "--ib-port", Value: o.ibPort, Least: 1},
		cli.GIDRange("--gid-index", o.gidIndex),
	); err != nil {
		return err
	}
	if o.mtuBytes != 0 {
		if _, err := cli.MTUFlag(o.mtuBytes); err != nil {
			return err
		}
	}
	if err := o.dev.Check(); err != nil {
		return err
	}
	if err := o.hello().check(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// checkTogether checks the options that not every test or other option allows.
func (o *options) checkTogether() error {
	switch {
	case o.all && o.sizeFlag.Changed:
		return cli.Usagef("--all and --size exclude each other")
	case o.iters < 0:
		return cli.Usagef("--iters %d: at least 1 message", o.iters)
	case o.seconds < 0:
		return cli.Usagef("--duration %d: at least 1 second", o.seconds)
	case o.iters > 0 && o.seconds > 0:
		return cli.Usagef("--iters and --duration exclude each other")
	case o.events && o.test == writeLatency:
		return cli.Usagef("--events: a WRITE makes no completion at its target; poll, or measure " +
			"send lat")
	case o.test == sendLatency && (o.cqMod < 1 || o.cqMod > latencyDepth):
		return cli.Usagef("--cq-mod %d: 1 to %d SENDs", o.cqMod, latencyDepth)
	case o.plot != "" && !o.all:
		return cli.Usagef("--plot: it draws results by size; add --all")
	case o.json && o.csv:
		return cli.Usagef("--json and --csv exclude each other")
	}
	return nil
}

// hello returns the client's first message to the server.
func (o *options) hello() *Hello {
	sizes := o.sizes()
	return &Hello{
		Protocol: protocol, Op: o.test.op, Metric: o.test.metric, MaxSize: sizes[len(sizes)-1],
		Connection: o.service, QPs: o.qps, Depth: o.depth, MTU: o.mtuBytes, Inline: o.inline,
		Bidirectional: o.bidir, Events: o.events, RDMACM: o.rdmacm, CQMod: o.cqMod,
		DurationNS: int64(o.duration),
	}
}

// adopt takes the client's decisions.
func (o *options) adopt(h *Hello) {
	o.service, o.adopted = h.Connection, true
	o.size, o.qps, o.depth, o.inline, o.mtuBytes = h.MaxSize, h.QPs, h.Depth, h.Inline, h.MTU
	o.cqMod = h.CQMod
	o.bidir, o.events, o.rdmacm, o.duration = h.Bidirectional, h.Events, h.RDMACM,
		time.Duration(h.DurationNS)
}

// sizes are the message sizes to measure, ascending.
func (o *options) sizes() []int {
	if !o.all {
		return []int{o.size}
	}
	var s []int
	largest := largestOfAll
	if o.datagram > 0 {
		largest = o.datagram
	}
	for n := smallestOfAll; n <= largest; n *= 2 {
		s = append(s, n)
	}
	return s
}

// bound makes n the longest message, as UD wants it: beyond it one of somebody's
// choice is refused, the default is cut.
func (o *options) bound(n int, what string) error {
	if o.mtuBytes > 0 && o.mtuBytes < n {
		n, what = o.mtuBytes, "a datagram with this --mtu"
	}
	o.datagram = n
	chosen := o.sizeFlag.Changed || o.adopted
	switch {
	case o.all || o.size <= n:
	case chosen:
		return cli.Usagef("--size %d: %s carries %d bytes; use a smaller size", o.size, what, n)
	default:
		o.size = n
	}
	return nil
}

// Without --iters large messages are sent less often, and messages of many queue pairs:
// as often as their number times size stays below these, on a queue pair and on all, but
// no less than the depth.
const (
	defaultBytes    = 1 << 30
	defaultBytesAll = 1 << 34
)

// iterations returns the messages to send on each queue pair; 0 is by
// duration.
func (o *options) iterations(size int) int64 {
	switch {
	case o.duration > 0:
		return 0
	case o.iters > 0:
		return o.iters
	}
	return max(min(o.test.defaultIters(), int64(defaultBytes/size),
		int64(defaultBytesAll/size/o.qps)), int64(o.depth))
}

func (o *options) format() format {
	switch {
	case o.json:
		return formatJSON
	case o.csv:
		return formatCSV
	}
	return formatTable
}

// pathMTU is the MTU to use between ports that carry a and b bytes.
func (o *options) pathMTU(a, b int) ib.MTU {
	m := ib.MTUFor(min(a, b))
	if o.mtuBytes != 0 {
		m = min(m, ib.MTUFor(o.mtuBytes))
	}
	return m
}
