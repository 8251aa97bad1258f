// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/sys/freeport"
	"verbena/internal/tools/cli"
)

// live is the measure of flows over a link that "verbena sim --live" emulates, in turns.
type live struct {
	rates, losses []string
	trips         []time.Duration
	seconds, mtu  int
}

// liveFlow is two programs that send from host a to host b, or have b's memory read.
type liveFlow struct {
	name           string
	port           int // the server's
	server, client []string
	figure         func(out string) (float64, error) // MB/s
	rare           bool                              // only where the goal names it
}

const (
	besideAll = "BBR" // the flow that others are beside
	liveHost  = "10.0.0.2"
)

// liveFlows are the flows of a cell, in the order of their turns. VERBENA stands for the command,
// SECONDS for the length.
var liveFlows = []liveFlow{
	perfFlow("WRITE", "write", "roce"), tcpFlow(besideAll, "bbr"), perfFlow("READ", "read", "roce"),
	tcpFlow("CUBIC", "cubic"), perfFlow("TRP WRITE", "write", "trp"),
	perftestFlow("ib_write_bw"), perftestFlow("ib_read_bw"),
}

func perfFlow(name, test, kind string) liveFlow {
	common := []string{"VERBENA", "perf", test, "bw", "-d", kind + "_eth0"}
	return liveFlow{name: name, port: 18515, server: common,
		client: append(append([]string{}, common...), "-D", "SECONDS", "--json", liveHost),
		figure: func(out string) (float64, error) {
			row, err := parsePerf([]byte(out))
			return row.Average * mebibyte / 1e6, err
		}}
}

func tcpFlow(name, algorithm string) liveFlow {
	return liveFlow{name: name, port: 5201, server: []string{"iperf3", "-s", "-1"},
		client: []string{"iperf3", "-c", liveHost, "-t", "SECONDS", "-J", "-C", algorithm},
		figure: func(out string) (float64, error) {
			var r struct {
				Error string `json:"error"`
				End   struct {
					Received struct {
						BitsPerSecond float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				} `json:"end"`
			}
			err := json.Unmarshal([]byte(out), &r)
			if err == nil && r.Error != "" {
				err = errors.New(r.Error)
			}
			return r.End.Received.BitsPerSecond / 8e6, err
		}}
}

func perftestFlow(program string) liveFlow {
	common := []string{"VERBENA", "run", program, "-d", "roce_eth0", "-s", "65536", "-D", "SECONDS"}
	return liveFlow{name: program, port: 18515, server: common, rare: true,
		client: append(append([]string{}, common...), liveHost),
		figure: column("65536", 3, mebibyte/1e6)}
}

// liveCommand measures flows over emulated links.
func liveCommand() *cobra.Command {
	l := live{}
	cmd := &cobra.Command{
		Use:   "live",
		Short: "Measure beside TCP over emulated links",
		Long: `Measure WRITE, READ and TRP over links that "verbena sim --live" emulates, with a
buffer of 1 MB, beside TCP with BBR and CUBIC in turns. ib_write_bw and ib_read_bw
have a round trip of 50 ms and 1 % loss. Prints a table for each rate, with MB/s of
payload and, in parentheses, the multiple of BBR's.`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&l.rates, "rate", []string{"100Mb/s", "1Gb/s"}, "`RATES` of the links")
	fs.StringSliceVar(&l.losses, "loss", []string{"0%", "0.1%", "1%", "5%"},
		"`LOSSES` each way")
	fs.DurationSliceVar(&l.trips, "rtt", []time.Duration{100 * time.Microsecond, time.Millisecond,
		10 * time.Millisecond, 50 * time.Millisecond}, "round trips: `TIMES`")
	fs.IntVar(&l.mtu, "mtu", 1500, "longest packet in `BYTES`; 4200 gives RoCE a path MTU of 4096")
	fs.IntVar(&l.seconds, "seconds", 3, "length of each flow in `SECONDS`")
	return cmd
}

// liveCell has the figures of the flows of a cell.
type liveCell map[string]liveFigure

type liveFigure struct {
	MBytes float64 // a second
	Err    string  `json:",omitempty"`
}

func (l *live) run(ctx context.Context, out, log io.Writer) error {
	if l.seconds < 1 {
		return cli.Usagef("--seconds must be at least 1")
	}
	dir, err := os.MkdirTemp("", "verbena-live")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dead, behind, all := 0, 0, 0
	for _, rate := range l.rates {
		table := newLiveTable(rate, l.trips)
		for _, loss := range l.losses {
			var cells []liveCell
			for _, trip := range l.trips {
				fmt.Fprintf(log, "%s, %v, loss %s\n", rate, trip, loss)
				cell, err := l.cell(ctx, dir, rate, loss, trip, log)
				if err != nil {
					return err
				}
				cells = append(cells, cell)
				for name, f := range cell {
					bbr := cell[besideAll].MBytes
					switch {
					case name == besideAll || name == "CUBIC":
						continue
					case f.Err != "":
						dead++
						fmt.Fprintf(log, "%s: %s\n", name, f.Err)
					case f.MBytes < liveGoal*bbr:
						behind++
					}
					all++
				}
			}
			table.add(loss, cells)
		}
		fmt.Fprintln(out, table)
	}
	fmt.Fprintf(out, "%d of %d figures are below %g times BBR's, %d connections ended early\n",
		behind, all, liveGoal, dead)
	return nil
}

// liveGoal is the least multiple of BBR's rate.
const liveGoal = 0.9

// cell has all flows take their turn on one link.
func (l *live) cell(ctx context.Context, dir, rate, loss string, trip time.Duration,
	log io.Writer) (liveCell, error) {
	verbena, err := Verbena()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	scenario, result := filepath.Join(dir, "link.sim"), filepath.Join(dir, "result")
	if err := os.WriteFile(scenario, fmt.Appendf(nil, "host a b\nlink a b rate %s delay %dns "+
		"buffer 1MB loss %s\n", rate, trip/2, loss), 0o600); err != nil {
		return nil, err
	}
	rare := strconv.FormatBool(loss == "1%" && trip == 50*time.Millisecond)
	cmd := exec.CommandContext(ctx, verbena, "sim", "--live", "--mtu", strconv.Itoa(l.mtu),
		scenario, "--", self, "live-cell",
		strconv.Itoa(l.seconds), rare, result)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("verbena sim --live: %w: %s", err, tail(said.String()))
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "came late") || strings.Contains(line, "lost beside") {
			fmt.Fprint(log, line)
		}
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return nil, err
	}
	var cell liveCell
	return cell, json.Unmarshal(text, &cell)
}

// liveCellCommand is the program on the emulated link.
func liveCellCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "live-cell SECONDS RARE RESULT",
		Short:  "Have flows take their turn on this link",
		Hidden: true,
		Args:   cli.Args(3, 3, "a number, whether rare flows run, and a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := strconv.Atoi(args[0])
			if err != nil {
				return err
			}
			cell := liveCell{}
			for _, f := range liveFlows {
				if f.rare && args[1] != "true" {
					continue
				}
				v, err := f.run(cmd.Context(), seconds)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				figure := liveFigure{MBytes: v}
				if err != nil {
					figure = liveFigure{Err: err.Error()}
				}
				cell[f.name] = figure
			}
			text, err := json.Marshal(cell)
			if err != nil {
				return err
			}
			return os.WriteFile(args[2], text, 0o600)
		},
	}
}

// liveGrace is the time that programs have beyond the measured one: to connect and to end over a
// link that loses.
const liveGrace = 30 * time.Second

// run runs server and client.
func (f *liveFlow) run(ctx context.Context, seconds int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+liveGrace)
	defer cancel()
	verbena, err := Verbena()
	if err != nil {
		return 0, err
	}
	on := func(host string, argv []string, out, errOut *bytes.Buffer) *exec.Cmd {
		args := []string{"netns", "exec", host}
		for _, a := range argv {
			switch a {
			case "VERBENA":
				a = verbena
			case "SECONDS":
				a = strconv.Itoa(seconds)
			}
			args = append(args, a)
		}
		cmd := exec.CommandContext(ctx, "ip", args...)
		cmd.Stdout, cmd.Stderr = out, errOut
		cmd.WaitDelay = stopGrace
		return cmd
	}
	var said, out, errOut bytes.Buffer
	server := on("b", f.server, &said, &said)
	if err := server.Start(); err != nil {
		return 0, err
	}
	for !freeport.ListensAt(server.Process.Pid, f.port) {
		select {
		case <-ctx.Done():
			_ = server.Wait() // it was killed
			return 0, fmt.Errorf("the server does not listen: %s", tail(said.String()))
		case <-time.After(retryPause):
		}
	}
	err = on("a", f.client, &out, &errOut).Run()
	if err != nil {
		cancel()
	}
	ended := server.Wait()
	if err == nil {
		var v float64
		if v, err = f.figure(out.String()); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: %s; its server: %v: %s", err,
		tail(errOut.String()+out.String()), ended,
		tail(said.String()))
}

// liveTable is a table of a page: rows of loss and flow, columns of round trips.
type liveTable struct{ strings.Builder }

func newLiveTable(rate string, trips []time.Duration) *liveTable {
	t := &liveTable{}
	fmt.Fprintf(t, "| %s, loss each way |", rate)
	for i, trip := range trips {
		if i == 0 {
			fmt.Fprint(t, " round trip")
		}
		fmt.Fprintf(t, " %v |", trip)
	}
	fmt.Fprintf(t, "\n|---|%s\n", strings.Repeat("---|", len(trips)))
	return t
}

func (t *liveTable) add(loss string, cells []liveCell) {
	for _, f := range liveFlows {
		line, any := fmt.Sprintf("| %s %s |", loss, f.name), false
		for _, cell := range cells {
			figure, measured := cell[f.name]
			bbr := cell[besideAll].MBytes
			switch {
			case !measured:
				line += " |"
			case figure.Err != "":
				line += " ended early |"
			case f.name == besideAll || bbr == 0:
				line += fmt.Sprintf(" %.3g |", figure.MBytes)
			default:
				line += fmt.Sprintf(" %.3g (%.2f) |", figure.MBytes, figure.MBytes/bbr)
			}
			any = any || measured
		}
		if any {
			fmt.Fprintln(t, line)
		}
	}
}
