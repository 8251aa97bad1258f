// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"verbena/internal/tools/cli"
)

// Limits of rping: the shortest size holds "rdma-ping-2147483647: ".
const (
	minSize = 26
	maxSize = 64*1024 - 1

	defaultPort = 7174
	maxTxDepth  = 4096
)

// memoryMode selects the registration of buffers.
type memoryMode string

const (
	memPlain   memoryMode = "plain"
	memFastReg memoryMode = "fastreg"
	memWindow  memoryMode = "mw"
)

// mode selects the exchange over the connection.
type mode int

const (
	modePing mode = iota
	modeWriteLatency
	modeReadLatency
	modeBandwidth
)

type options struct {
	dev    cli.Device
	server bool
	client bool

	addr       string
	source     string
	port       int
	size       int
	count      int // 0 is for ever
	verbose    bool
	validate   bool
	debug      bool
	persistent bool

	mem       string
	serverInv bool
	readInv   bool
	wlat      bool
	rlat      bool
	bw        bool
	duplex    bool
	poll      bool
	txDepth   int

	patience  time.Duration        // how long a connection may take to come about
	listening func(netip.AddrPort) // if set: called when the server can be reached
}

func (o *options) flags(fs *pflag.FlagSet) {
	o.patience = cli.ConnectTimeout
	fs.SortFlags = false
	fs.BoolVarP(&o.server, "server", "s", false, "be the server")
	fs.BoolVarP(&o.client, "client", "c", false, "be the client")
	fs.StringVarP(&o.addr, "addr", "a", "",
		"server: listen on `ADDR` (default every address); client: connect to it")
	fs.StringVarP(&o.source, "source", "I", "", "client: connect from `ADDR`")
	fs.IntVarP(&o.port, "port", "p", defaultPort, "use `PORT` of the RDMA TCP port space")
	fs.IntVarP(&o.size, "size", "S", 64, "ping data size in `BYTES`, 26 to 65535")
	fs.IntVarP(&o.count, "count", "C", 0,
		"ping `N` times (default without end; 1000 when measuring)")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "print the ping data")
	fs.BoolVarP(&o.validate, "validate", "V", false,
		"compare the data that come back with the ping data")
	fs.BoolVarP(&o.debug, "debug", "d", false, "print each step")
	fs.BoolVarP(&o.persistent, "persistent", "P", false, "server: serve any number of clients")
	fs.BoolP("self-qp", "q", false, "accepted for compatibility with rping; has no effect")
	fs.StringVar(&o.mem, "mem", string(memPlain), "register memory by `MODE`: plain, fastreg or mw")
	fs.BoolVar(&o.serverInv, "server-inv", false,
		"the server invalidates the client's keys with its SENDs (both sides; fastreg or mw)")
	fs.BoolVar(&o.readInv, "read-inv", false,
		"the server invalidates its key right after the READ (fastreg)")
	fs.BoolVar(&o.wlat, "wlat", false, "measure WRITE latency (both sides)")
	fs.BoolVar(&o.rlat, "rlat", false, "measure READ latency (both sides)")
	fs.BoolVar(&o.bw, "bw", false, "measure WRITE bandwidth (both sides)")
	fs.BoolVar(&o.duplex, "duplex", false, "with --bw: in both directions (both sides)")
	fs.BoolVar(&o.poll, "poll", false, "with --rlat: poll instead of sleeping")
	fs.IntVar(&o.txDepth, "txdepth", 64, "with --bw: keep `N` WRITEs outstanding")
	o.dev.KindFlag(fs)
	o.dev.WireFlags(fs)
}

// validateFlags makes the checks that need no device.
func (o *options) validateFlags() error {
	switch {
	case o.server == o.client:
		return cli.Usagef("use -s for the server or -c for the client")
	case o.client && o.addr == "":
		return cli.Usagef("the client needs the server's address: -a ADDR")
	case o.count < 0:
		return cli.Usagef("-C %d: at least 1 ping", o.count)
	case o.persistent && o.client:
		return cli.Usagef("-P is an option of the server only")
	case o.source != "" && o.server:
		return cli.Usagef("-I is an option of the client only")
	case moreThanOne(o.wlat, o.rlat, o.bw):
		return cli.Usagef("--wlat, --rlat and --bw exclude each other")
	case o.duplex && !o.bw:
		return cli.Usagef("--duplex needs --bw")
	case o.poll && !o.rlat:
		return cli.Usagef("--poll needs --rlat")
	}
	if err := o.checkMemory(); err != nil {
		return err
	}
	if err := cli.CheckRanges(
		cli.PortRange("-p", o.port),
		cli.Range{Option: "-S", Value: o.size, Least: minSize, Most: maxSize, Unit: "bytes"},
		cli.Range{Option: "--txdepth", Value: o.txDepth, Least: 1, Most: maxTxDepth,
			Unit: "WRITEs"},
	); err != nil {
		return err
	}
	if o.mode() != modePing && o.count == 0 {
		o.count = 1000
	}
	return o.dev.Check()
}

// checkMemory checks how memory is registered, and the options that only some ways allow.
func (o *options) checkMemory() error {
	switch {
	case !slices.Contains([]memoryMode{memPlain, memFastReg, memWindow}, memoryMode(o.mem)):
		return cli.Usagef("--mem %s: it must be plain, fastreg or mw", o.mem)
	case o.serverInv && o.mem == string(memPlain):
		return cli.Usagef("--server-inv needs keys that can be invalidated: --mem fastreg or " +
			"--mem mw")
	case o.readInv && o.mem != string(memFastReg):
		return cli.Usagef("--read-inv needs --mem fastreg")
	}
	return nil
}

func moreThanOne(flags ...bool) bool {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n > 1
}

func (o *options) mode() mode {
	switch {
	case o.wlat:
		return modeWriteLatency
	case o.rlat:
		return modeReadLatency
	case o.bw:
		return modeBandwidth
	}
	return modePing
}
