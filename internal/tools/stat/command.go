// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"fmt"
	"io"
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
	device string
	json   bool
	watch  bool
	zeros  bool
	dir    string
}

// Command returns "verbena stat".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "stat",
		Short: "Show the counters of devices in use",
		Long: `Show the counters of every device that a process of this user has open. Each
process answers for itself, on a socket in the user's runtime directory:
$XDG_RUNTIME_DIR/verbena or, without that variable, /run/user/UID/verbena or
/tmp/verbena-UID.`,
		Example: `  verbena stat
  verbena stat -d roce_lo --watch
  verbena stat --json | jq .devices[].counters`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.dir = cli.RuntimeDir()
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&o.device, "ib-dev", "d", "", "only device `DEV`")
	fs.BoolVar(&o.json, "json", false, "print one line of JSON for each process")
	fs.BoolVarP(&o.watch, "watch", "w", false, "show them again every second, until interrupted")
	fs.BoolVarP(&o.zeros, "all", "a", false, "show counters that are 0 as well")
	return cmd
}

func (o *options) run(ctx context.Context, w io.Writer) error {
	if o.device != "" {
		if _, err := cli.FindDevice(o.device); err != nil {
			return err
		}
	}
	for {
		all, err := stats.Collect(ctx, o.dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot look for processes: %w", err)
		}
		if err := o.show(w, only(all, o.device)); err != nil || !o.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

func (o *options) show(w io.Writer, all []stats.Snapshot) error {
	if o.json {
		return printJSON(w, all)
	}
	if o.watch {
		fmt.Fprint(w, clearScreen)
	}
	printTable(w, all, o.zeros)
	return nil
}
