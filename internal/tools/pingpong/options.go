// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"net"

	"github.com/spf13/pflag"

	"verbena/ib"
	"verbena/internal/tools/cli"
)

const maxQPs = srqSlots - 1

// options of one run.
type options struct {
	kind     kind
	dev      cli.Device
	host     string // empty is the server
	tcpPort  int
	port     int // of the device
	size     int // message bytes
	mtuBytes int
	mtu      ib.MTU
	qps      int
	rxDepth  int
	iters    int
	sl       int
	events   bool
	gidIndex int
	check    bool

	listening func(net.Addr) // if set: called when the server can be reached
}

func (o *options) flags(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.IntVarP(&o.tcpPort, "port", "p", 18515, "listen on or connect to TCP port `PORT`")
	o.dev.NameFlag(fs, "d")
	fs.IntVarP(&o.port, "ib-port", "i", 1, "use `PORT` of the device")
	fs.IntVarP(&o.size, "size", "s", o.kind.size, "message size in `BYTES`")
	if o.kind.pathMTU {
		fs.IntVarP(&o.mtuBytes, "mtu", "m", 1024,
			"path MTU in `BYTES`: 256, 512, 1024, 2048 or 4096")
	}
	if o.kind.shared {
		fs.IntVarP(&o.qps, "num-qp", "q", 16, "use `N` queue pairs")
	}
	fs.IntVarP(&o.rxDepth, "rx-depth", "r", 500, "post `N` receives at a time")
	fs.IntVarP(&o.iters, "iters", "n", 1000, "exchange `N` messages")
	fs.IntVarP(&o.sl, "sl", "l", 0, "service level `SL`")
	fs.BoolVarP(&o.events, "events", "e", false, "sleep on completion events (default poll)")
	fs.IntVarP(&o.gidIndex, "gid-idx", "g", cli.AnyGID,
		"use the local GID at `INDEX` (default: chosen, IPv4 first)")
	fs.BoolVarP(&o.check, "chk", "c", false, "validate the received buffer")
	o.dev.WireFlags(fs)
}

// validate makes the checks that need no device.
func (o *options) validate() error {
	if err := cli.CheckRanges(
		cli.PortRange("--port", o.tcpPort),
		cli.Range{Option: "--ib-port", Value: o.port, Least: 1},
		cli.Range{Option: "--size", Value: o.size, Least: 1, Most: ib.MaxMessage, Unit: "bytes"},
		cli.Range{Option: "--rx-depth", Value: o.rxDepth, Least: 1, Unit: "receive"},
		cli.Range{Option: "--iters", Value: o.iters, Least: 1, Unit: "exchange"},
		cli.Range{Option: "--sl", Value: o.sl, Most: 15},
		cli.GIDRange("--gid-idx", o.gidIndex),
	); err != nil {
		return err
	}
	if o.kind.pathMTU {
		var err error
		if o.mtu, err = cli.MTUFlag(o.mtuBytes); err != nil {
			return err
		}
	}
	if err := o.dev.Check(); err != nil {
		return err
	}
	if !o.kind.shared {
		o.qps = 1
		return nil
	}
	switch {
	case o.qps < 1 || o.qps > maxQPs:
		return cli.Usagef("--num-qp %d: 1 to %d queue pairs", o.qps, maxQPs)
	case o.qps > o.rxDepth:
		return cli.Usagef("--rx-depth %d is too small for %d queue pairs: each needs a receive",
			o.rxDepth, o.qps)
	}
	return nil
}

// slots returns the number of addresses that the two sides exchange.
func (o *options) slots() int {
	if o.kind.shared {
		return srqSlots
	}
	return 1
}
