// SPDX-License-Identifier: BSD-2-Clause

// Command verbena is RDMA in user space from the command line: devices and their attributes, the
// classic test programs, measurements, captures.
//
// Each subcommand is a package under internal/tools; here they are put
// together.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"verbena/internal/sys/portshare"
	"verbena/internal/tools/cli"
	"verbena/internal/tools/devinfo"
	"verbena/internal/tools/dump"
	"verbena/internal/tools/ether"
	"verbena/internal/tools/keeper"
	"verbena/internal/tools/perf"
	"verbena/internal/tools/pingpong"
	"verbena/internal/tools/rping"
	runprogram "verbena/internal/tools/run"
	"verbena/internal/tools/sim"
	"verbena/internal/tools/stat"
	"verbena/internal/tools/view"
	"verbena/internal/version"
)

func main() {
	version.UseBuild()
	portshare.KeeperPath = os.Executable
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := cli.Execute(ctx, root(), os.Stderr)
	stop()
	os.Exit(status)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "verbena",
		Version: version.String(),
		Short:   "RDMA verbs in user space",
		Long: `RDMA verbs in user space, over RoCEv2 and iWARP: compatible with RoCE hardware and
with the Linux kernel's rdma_rxe and siw. It needs no kernel module and no
privilege.

Every network interface that is up and has an IP address has three devices, such as
roce_eth0 (RoCEv2), iwarp_eth0 (iWARP over TCP) and trp_eth0 (iWARP over UDP, as
urdma). VERBENA_NTB configures links of kind NTB, which are devices ntb0, ntb1 and
so on.

The exit status is 0 on success, 1 on failure, 2 for a wrong call and 130 after an
interrupt. "verbena run" returns the program's status, 127 if the program does not
exist, and 126 if it cannot be executed.`,
	}
	cmd.SetVersionTemplate("verbena {{.Version}}\n")
	cmd.AddCommand(
		devinfo.DevicesCommand(),
		devinfo.Command(),
		pingpong.Command(),
		rping.Command(),
		perf.Command(),
		runprogram.Command(),
		ether.Command(),
		dump.Command(),
		stat.Command(),
		stat.TopCommand(),
		view.Command(),
		sim.Command(),
		keeper.Command(),
	)
	cli.CompleteDevices(cmd)
	return cmd
}
