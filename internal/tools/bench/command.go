// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"verbena/ib"
	"verbena/internal/tools/chart"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

// run is one run of all measures.
type run struct {
	*peer
	rounds  int
	seconds int // of a bandwidth round
	pings   int // of a latency round
	rateOps int64
	flatOps int64
	idleQPs int
	only    string
	output  string
	page    string // whose table is to be replaced
	log     io.Writer

	// made when first used
	dir   string // for files of the run
	apart *namespaces
}

// Command returns the command verbena-bench.
func Command() *cobra.Command {
	r := &run{}
	var device string
	cmd := &cobra.Command{
		Use:   "verbena-bench",
		Short: "Measure Verbena beside this machine's sockets",
		Long: `Measure bandwidth, latency, message rate and memory between two processes, and
beside each what plain sockets, TCP, UCX or libfabric do: Verbena's own programs,
unmodified C programs over its libraries, servers that sleep, MPI ranks that poll,
an NTB link. A measure is left out where a program, a namespace or perf is missing.
Rounds of both alternate; the median counts. Prints a table and writes a JSON
object: date, machine, versions and results, a list of objects with topic, name,
value, unit, beside, baseline, ratio, goal, met, spread.

A goal that is not met is no error: the exit status is 0 when all was measured.
A measure that fails does not stop the others.`,
		Example: "  bin/verbena-bench -o bench.json\n" +
			"  bin/verbena-bench --only '*one way*' --rounds 5",
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.log = cmd.ErrOrStderr()
			if err := r.check(); err != nil {
				return err
			}
			var err error
			if r.peer, err = loopbackPeer(device); err != nil {
				return err
			}
			return r.all(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&r.output, "output", "o", "bench.json",
		"write the results to `FILE`; empty is nowhere")
	fs.StringVar(&r.page, "page", "",
		"write the table and charts into `FILE` too, between its marks, as docs/performance.md"+
			" has them")
	fs.IntVar(&r.rounds, "rounds", 3, "measure `N` times, ours and the sockets' in turn")
	fs.StringVar(&r.only, "only", "",
		"only the measures, or the parts of the table, whose name matches `GLOB`, as '*one way*'"+
			" or 'NTB'")
	fs.IntVar(&r.seconds, "seconds", 2, "length of a bandwidth round in `SECONDS`")
	fs.IntVar(&r.pings, "pings", 50000, "round trips of a latency round: `N`")
	fs.Int64Var(&r.rateOps, "rate-ops", 2e6, "operations of a rate round: `N`")
	fs.Int64Var(&r.flatOps, "ops", 10e6, "operations over which memory must stay flat: `N`")
	fs.IntVar(&r.idleQPs, "idle-qps", 10000, "idle queue pairs whose memory is counted: `N`")
	fs.StringVarP(&device, "ib-dev", "d", "", "use device `DEV` (default the one on loopback)")
	cmd.AddCommand(serveCommand(), framesCommand(), idleCommand(), requestsCommand(),
		floodCommand(), liveCommand(), liveCellCommand(), drawCommand())
	return cmd
}

func (r *run) check() error {
	if r.page != "" { // before minutes have passed
		if err := checkPage(r.page); err != nil {
			return err
		}
	}
	if _, err := path.Match(r.only, ""); err != nil {
		return cli.Usagef("--only %q: %w", r.only, err)
	}
	if r.rounds < 1 || r.seconds < 1 || r.pings < 1 || r.rateOps < 1 || r.flatOps < 1 ||
		r.idleQPs < 1 {
		return cli.Usagef("every count must be at least 1")
	}
	if !slices.ContainsFunc(topics, func(t topic) bool {
		return slices.ContainsFunc(t.groups, func(g group) bool { return r.wantsAny(t, g) })
	}) {
		return fmt.Errorf("no measure is named %q", r.only)
	}
	return nil
}

// etherPeer is p on another device than loopback's, for programs that refuse that one. Packets
// between two processes of one machine go over loopback all the same.
func etherPeer(p *peer) (*peer, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if addr, err := localAddress(d.Name); err == nil && addr.Is4() && !addr.IsLoopback() &&
			d.PortAttr().State == ib.PortActive {
			return newPeer(d.Name, addr.String())
		}
	}
	return nil, fmt.Errorf("%w: no interface but loopback has an IPv4 address", errLeftOut)
}

// loopbackPeer finds the device with a loopback address, and that address.
func loopbackPeer(name string) (*peer, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if name != "" && d.Name != name {
			continue
		}
		addr, err := localAddress(d.Name)
		if err != nil {
			return nil, err
		}
		if addr.IsLoopback() || name != "" {
			return newPeer(d.Name, addr.String())
		}
	}
	if name != "" {
		_, err := cli.FindDevice(name)
		return nil, err
	}
	return nil, fmt.Errorf("no device has a loopback address; name one with -d")
}

func localAddress(device string) (netip.Addr, error) {
	c, err := verbs.Open(device)
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	gid, err := cli.LocalGID(c, 1, cli.AnyGID)
	return gid.GID.Addr(), err
}

// all takes every measure and reports. A measure that fails is no reason not to take
// the others.
func (r *run) all(ctx context.Context, out io.Writer) error {
	defer r.close()
	var results []Result
	failed := 0
	for _, t := range topics {
		for _, g := range t.groups {
			if !r.wantsAny(t, g) {
				continue
			}
			res, err := r.take(ctx, t, g)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errLeftOut):
				fmt.Fprintf(r.log, "%s: %v\n", g.rows[0].name, err)
			case err != nil:
				failed++
				fmt.Fprintf(r.log, "%s: %v\n", g.rows[0].name, err)
			}
			results = append(results, res...)
		}
	}
	printTable(out, results)
	err := r.write(results)
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d measures failed, as said above", failed))
	}
	return err
}

// write writes the results where they are wanted.
func (r *run) write(results []Result) error {
	report := &Report{chart.ThisMachine(), results}
	if r.page != "" {
		if err := writePage(r.page, report); err != nil {
			return err
		}
	}
	if r.output == "" {
		return nil
	}
	f, err := os.Create(r.output)
	if err != nil {
		return err
	}
	return errors.Join(report.write(f), f.Close())
}

// close removes the files of the measures.
func (r *run) close() {
	if r.apart != nil {
		r.apart.close()
	}
	if r.dir != "" {
		os.RemoveAll(r.dir)
	}
}
