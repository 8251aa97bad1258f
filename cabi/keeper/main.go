// SPDX-License-Identifier: BSD-2-Clause

// Command verbena-keeper does what the C libraries let a process apart do. It is installed beside
// them: so they need no command, and never meet one of another version.
//
//	keeper    holds UDP port 4791 for the programs that meet in a directory, as `verbena keeper` does
//	counters  writes the counters of ports into the files of `verbena run`
//	netlink   answers NETLINK_RDMA from its standard input, a socket
package main

import (
	"fmt"
	"os"

	"verbena/internal/rdmanl"
	"verbena/internal/stats"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/transport/roce"
)

func main() {
	a := os.Args[1:]
	var err error
	switch {
	case len(a) == 3 && a[0] == portshare.KeeperCommand && a[1] == portshare.Detached:
		err = roce.Keep(a[2], xdp.Attach)
	case len(a) == 2 && a[0] == stats.FillCommand:
		err = stats.FillFiles(a[1])
	case len(a) == 2 && a[0] == rdmanl.ServeCommand:
		err = rdmanl.Serve(0, a[1])
	default:
		fmt.Fprintln(os.Stderr, "verbena-keeper is started by Verbena's libraries")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "verbena-keeper:", err)
		os.Exit(1)
	}
}
