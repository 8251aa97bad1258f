// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/stats"
	"verbena/internal/tools/cli"
)

// watchInterval is the time between two polls of --watch.
const watchInterval = time.Second

// clearScreen moves a terminal's cursor to the top and clears it.
const clearScreen = "\x1b[H\x1b[2J"

type options struct {
	filter filter
	peer   string // filter.peer, as it was given
	json   bool
	watch  bool
	zeros  bool
	qps    bool
	more   bool
	ended  bool
	listen string
	dir    string
}

// Command returns "verbena stat".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "stat",
		Short: "Show the queue pairs and counters of devices in use",
		Long: `Show the queue pairs and the counters of every device that a process of this user
has open. Each process answers for itself, on a socket in the user's runtime
directory: $XDG_RUNTIME_DIR/verbena or, without that variable,
/run/user/UID/verbena or /tmp/verbena-UID.

A queue pair's line has its peer, the carrier of its packets, the next PSNs, work
requests and receives posted, packets outstanding, credits, retries left, NAKs
received and bytes. The line of its path has smoothed and least round trip, the
window and the pace of sending, the bytes in flight, packets lost and repeated,
packets received with the mark "congestion experienced", and congestion
notifications received. Over TCP they are those of the system. Nothing is measured
in shared memory or over NTB.

--ended shows the last counters of processes that have ended, for ten minutes. Those
of a killed process are as old as its last second with traffic, or up to a minute if
it had been idle before.

--listen answers Prometheus at http://ADDR/metrics: sums over all processes of the
user, ended ones included, by device. Names are those of node_exporter's infiniband
collector where it has one, else verbena_NAME_total.`,
		Example: `  verbena stat
  verbena stat -d roce_lo --watch
  verbena stat --qps --peer 10.0.0.2
  verbena stat --qps --objects --pid 1234
  verbena stat --ended --qps
  verbena stat --listen 127.0.0.1:9490
  verbena stat dump 1234
  verbena stat --json | jq .devices[].queue_pairs[].path`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.dir = cli.RuntimeDir()
			if o.listen != "" {
				return o.serve(cmd.Context(), cmd.ErrOrStderr())
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&o.filter.device, "ib-dev", "d", "", "only device `DEV`")
	fs.IntVarP(&o.filter.pid, "pid", "p", 0, "only process `PID`")
	fs.StringVar(&o.peer, "peer", "", "only queue pairs whose peer has address `ADDR`")
	fs.BoolVarP(&o.qps, "qps", "q", false, "show queue pairs without the device's counters")
	fs.BoolVarP(&o.more, "objects", "o", false,
		"show completion queues, memory, listeners and other objects as well")
	fs.BoolVarP(&o.ended, "ended", "e", false,
		"show processes that have ended in the last ten minutes as well")
	fs.BoolVar(&o.json, "json", false, "print one line of JSON for each process")
	fs.BoolVarP(&o.watch, "watch", "w", false, "show them again every second, until interrupted")
	fs.StringVar(&o.listen, "listen", "",
		"serve the counters of all processes to Prometheus at `ADDR`, as 127.0.0.1:9490")
	fs.BoolVarP(&o.zeros, "all", "a", false, "show counters that are 0 as well")
	if err := cmd.RegisterFlagCompletionFunc("pid", completePIDs(false)); err != nil {
		panic(err) // there is no such flag
	}
	cmd.AddCommand(dumpCommand())
	return cmd
}

func (o *options) run(ctx context.Context, w io.Writer) error {
	if o.filter.device != "" {
		if _, err := cli.FindDevice(o.filter.device); err != nil {
			return err
		}
	}
	if o.peer != "" {
		peer, err := netip.ParseAddr(o.peer)
		if err != nil {
			return cli.Usagef("--peer %s: not an IP address", o.peer)
		}
		o.filter.peer = peer.Unmap().WithZone("")
	}
	var before rates
	for {
		all, err := stats.Collect(ctx, o.dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot look for processes: %w", err)
		}
		if o.ended {
			all = append(all, stats.Ended(o.dir)...)
		}
		if err := o.show(w, o.filter.of(all), &before); err != nil || !o.watch {
			return err
		}
		before.note(all)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

func (o *options) show(w io.Writer, all []stats.Snapshot, before *rates) error {
	if o.json {
		return printJSON(w, all)
	}
	if o.watch {
		fmt.Fprint(w, clearScreen)
	}
	o.printTables(w, all, before)
	return nil
}
