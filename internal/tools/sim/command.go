// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"verbena/internal/monotime"
	"verbena/internal/tools/cli"
)

type options struct {
	seed     uint64
	seeded   bool
	each     bool
	noGraphs bool
	csv      bool
	json     bool
	isLive   bool
	mtu      int  // of live interfaces
	inside   bool // live: this process is in namespaces of its own
}

// Command returns "verbena sim".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "sim FILE [-- PROGRAM [ARG...]]",
		Short: "Play flows of RDMA on an emulated network",
		Long: `Play flows of RDMA on a network that FILE describes, with Verbena's own protocol
machines in virtual time. The same file and seed give the same result. FILE - is
standard input. Each line is one of these; the rest of a line after # is a comment:

  host NAME...              hosts; h1..h64 is 64 of them, in all statements
  switch NAME...            switches
  link NAME NAME OPTION...  joins each with each, both ways: rate 10Gb/s, delay 1us,
                            buffer 1MB, jitter 5us, loss 0.1%, reorder 1% 100us,
                            bursts 0.01% 10% 50% (Gilbert-Elliott: begin, end, loss),
                            mark 100KB or mark 100KB..400KB 10% (ECN; with drop behind
                            it packets that are not ECN-capable are dropped)
  fattree PORTS OPTION...   a fat tree of switches with hosts h1, h2, ...; options of link
  flow KIND FROM TO OPTION...  write, read, send, trp, or a model of TCP, cubic or bbr,
                            between each FROM and each TO: size 1MB (default: without
                            end), message 64KiB, depth 128,
                            mtu 1024, reads 128, start 1ms, every 100us (each starts so
                            much later), pairs (the first with the first and so on),
                            go-back-n (the responder keeps nothing after a gap),
                            dcqcn (the sender's congestion control)
  at TIME link NAME NAME OPTION...  changes a link; also down and up
  run TIME [warm TIME]      ends the run, and measures flows without a size from warm on
  seed NUMBER

With --live the network carries the frames of PROGRAM, or of a shell, for as long as it
runs. Each host is a network namespace of its name, with an interface eth0: the first
has the addresses 10.0.0.1 and fd00::1, the next one 10.0.0.2 and fd00::2. "ip netns
exec NAME" runs a program on a host. Flows and the line run are not played; at counts
from PROGRAM's start. At the end the command prints counts of the links, and how exact
the times were. It needs Linux with TAP interfaces, and root or user namespaces.`,
		Example: `  verbena sim incast.sim
  verbena sim --json incast.sim | jq .groups[].last_end_seconds
  verbena sim --live slow.sim -- ip netns exec a ping -c 3 10.0.0.2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.isLive && len(args) > 1 && cmd.ArgsLenAtDash() == 1 {
				return nil
			}
			return cli.Args(1, 1, "one FILE, and with --live -- PROGRAM")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.seeded = cmd.Flags().Changed("seed") // then the file's is not obeyed
			if err := o.check(); err != nil {
				return err
			}
			if o.isLive {
				return o.live(cmd, args[0], args[1:])
			}
			return o.run(cmd, args[0])
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Uint64Var(&o.seed, "seed", 1, "play with seed `N`, whatever the file says")
	fs.BoolVar(&o.each, "each", false, "print a row for each flow")
	fs.BoolVar(&o.noGraphs, "no-graphs", false, "print the tables only")
	fs.BoolVar(&o.csv, "csv", false, "print the time series as comma-separated values")
	fs.BoolVar(&o.json, "json", false, "print tables and time series as JSON")
	fs.BoolVar(&o.isLive, "live", false, "run PROGRAM on the network")
	fs.IntVar(&o.mtu, "mtu", defaultMTU, "longest packet of live interfaces in `BYTES`")
	fs.BoolVar(&o.inside, insideFlag, false, "")
	_ = fs.MarkHidden(insideFlag) // it is there
	return cmd
}

// Bounds of an Ethernet interface's MTU: the minimum of IPv6, and the maximum of a TAP.
const (
	minMTU, defaultMTU, maxMTU = 1280, 1500, 65_521
)

func (o *options) check() error {
	switch {
	case o.csv && o.json:
		return cli.Usagef("--csv or --json, not both")
	case o.isLive && o.csv:
		return cli.Usagef("--live has no time series: --json has the counts")
	case o.mtu < minMTU || o.mtu > maxMTU:
		return cli.Usagef("--mtu %d is not from %d to %d", o.mtu, minMTU, maxMTU)
	}
	return nil
}

func (o *options) run(cmd *cobra.Command, name string) error {
	w := cmd.OutOrStdout()
	s, err := o.open(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	progress := cli.NewProgress(cmd.ErrOrStderr(), "virtual time", int64(s.run))
	r, err := s.play(cmd.Context(), func(at monotime.Duration) { progress.Set(int64(at)) })
	progress.Done()
	switch {
	case err != nil:
		return err
	case o.csv:
		return r.printCSV(w)
	case o.json:
		return r.printJSON(w)
	}
	fmt.Fprintf(w, "%s, %s, %s of virtual time\n\n", count(s.hosts, "host"),
		count(len(s.world.Flows), "flow"), writtenTime(r.took))
	r.printTables(w, o.each)
	if !o.noGraphs {
		r.printGraphs(w, width(w))
	}
	return nil
}

func (o *options) open(stdin io.Reader, name string) (*scenario, error) {
	if name == "-" {
		return o.read("standard input", stdin)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the scenario: %w", err)
	}
	defer f.Close()
	return o.read(name, f)
}

// graphWidth is that where there is no terminal, and the most where there is one.
const graphWidth = 72

// width returns the width of graphs for w.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(columns-10, 20), graphWidth)
		}
	}
	return graphWidth
}

// count writes how many things there are.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
