// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
)

// Command returns "verbena rping".
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "rping -s | -c -a ADDR",
		Short: "Ping by READ and WRITE over the connection manager, as rping does",
		Long: `Connect by the RDMA connection manager and ping: the server READs the client's
data and WRITEs it back. Either side may also be rping of rdma-core.

krping's modes: --mem chooses how memory is registered; --server-inv and --read-inv
choose which side invalidates keys, and when; --wlat, --rlat and --bw measure
instead of pinging. Give the same modes on both sides.`,
		Example: `  verbena rping -s -v                          on the server
  verbena rping -c -a 192.0.2.1 -C 10 -v -V    on the client
  verbena rping -s --mem fastreg --server-inv
  verbena rping -c -a 192.0.2.1 -C 1000 -V --mem fastreg --server-inv`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validateFlags(); err != nil {
				return err
			}
			if len(o.dev.Options()) > 0 {
				// They hold for the process: the first open decides.
				dev, err := o.dev.Open()
				if err != nil {
					return err
				}
				defer dev.Close()
			}
			run := runClient
			if o.server {
				run = runServer
			}
			return run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd.Flags())
	return cmd
}
