// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"

	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
)

// operations, with their names in help texts.
var operations = []struct{ op, name, about string }{
	{"write", "RDMA WRITE", "Latency is half a round trip of two WRITEs, each seen by polling " +
		"its last byte in memory."},
	{"read", "RDMA READ", "Latency is the time from posting a READ to its completion."},
	{"send", "SEND", "Latency is half a round trip of two SENDs."},
	{"atomic", "atomic fetch-and-add of 8 bytes",
		"Latency is the time from posting to completion."},
}

// Command returns "verbena perf".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency, as perftest does",
		Long: `Measure bandwidth (bw) or latency (lat) of one operation between two processes
or machines; both run verbena. The server runs without HOST. The client names the
server, and its options hold for both. Results are tables like perftest's, JSON or
CSV; MB is 2^20 bytes.

Over UC (write, send) and UD (send) messages may be lost. Bandwidth counts the
messages sent, and says how many arrived. Latency leaves out messages without an
answer. A UD message is at most the path MTU; its receive buffer has 40 bytes
more, for the GRH.`,
		Example: `  verbena perf write bw                       on the server
  verbena perf write bw -a 192.0.2.1          on the client: all sizes
  verbena perf send lat -s 2 -D 5 192.0.2.1   5 seconds of 2 bytes
  verbena perf send bw -c UD 192.0.2.1        datagrams of a path MTU`,
		RunE: cli.Group,
	}
	for _, op := range operations {
		sub := &cobra.Command{
			Use:   op.op,
			Short: "Measure " + op.name,
			Long:  fmt.Sprintf("Measure %s. %s", op.name, op.about),
			RunE:  cli.Group,
		}
		sub.AddCommand(subcommand(op.op, "bw", op.name, op.about),
			subcommand(op.op, "lat", op.name, op.about))
		cmd.AddCommand(sub)
	}
	return cmd
}

func subcommand(op, metric, name, about string) *cobra.Command {
	o := &options{test: test{op: op, metric: metric}}
	what, long := "Bandwidth", `The peak is the best 10 ms, the average that of the whole run.`
	if metric == "lat" {
		what, long = "Latency", about
	}
	cmd := &cobra.Command{
		Use:   metric + " [HOST]",
		Short: fmt.Sprintf("%s of %s", what, name),
		Long: fmt.Sprintf("%s of %s. %s\n\nWithout HOST wait for a client, else measure with "+
			"the server there.", what, name, long),
		Args: cli.Args(0, 1, "at most one HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.host = args[0]
			}
			if err := o.complete(); err != nil {
				return err
			}
			run := runServer
			if o.host != "" {
				run = runClient
			}
			err := run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil && cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return err
		},
	}
	o.flags(cmd.Flags())
	return cmd
}
