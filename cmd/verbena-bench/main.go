// SPDX-License-Identifier: BSD-2-Clause

// Command verbena-bench measures this implementation beside this machine's own
// sockets: make bench runs it. It starts the command verbena, which must be in its
// folder, and is not installed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"verbena/internal/sys/portshare"
	"verbena/internal/tools/bench"
	"verbena/internal/tools/cli"
	"verbena/internal/version"
)

func main() {
	version.UseBuild()
	portshare.KeeperPath = bench.Verbena
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := bench.Command()
	cli.CompleteDevices(cmd)
	status := cli.Execute(ctx, cmd, os.Stderr)
	stop()
	os.Exit(status)
}
