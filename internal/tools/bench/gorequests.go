// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
	"verbena/internal/tools/requests"
)

// requestsCommand is one side of a load in Go.
func requestsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "requests tcp|roce|iwarp|rsocket|http|http-rsocket server|client ADDR PORT VALUE " +
			"CLIENTS DEPTH SECONDS",
		Short:  "Be a server that sleeps, or its clients",
		Hidden: true,
		Args:   cli.Args(8, 8, "how, which side, an address and five numbers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return requests.Run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
