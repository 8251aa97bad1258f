// SPDX-License-Identifier: BSD-2-Clause

// Command verbena is RDMA in user space from the command line: devices and
// what they can do, the classic test programs, measurements, captures.
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
	"verbena/internal/tools/executor"
	"verbena/internal/tools/perf"
	"verbena/internal/tools/pingpong"
	"verbena/internal/tools/rping"
	runprogram "verbena/internal/tools/run"
	"verbena/internal/tools/stat"
	"verbena/internal/version"
)

func main() {
	portshare.ExecutorPath = os.Executable
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
		Long: `RDMA verbs in user space over RoCEv2, wire-compatible with the Linux kernel's
rdma_rxe and with RoCE hardware. No kernel module and no privilege is needed.

Every network interface that is up and has an IP address carries a device:
roce_ and its name. The exit status is 0 on success, 1 on failure, 2 for a wrong
call and 130 after an interrupt; "verbena run" has the program's, 127 if there is
none of that name, 126 if it cannot be executed.`,
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
		executor.Command(),
	)
	cli.CompleteDevices(cmd)
	return cmd
}
