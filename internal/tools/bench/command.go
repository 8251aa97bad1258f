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
}

// Command returns the command verbena-bench.
func Command() *cobra.Command {
	r := &run{}
	var device string
	cmd := &cobra.Command{
		Use:   "verbena-bench",
		Short: "Measure this implementation beside this machine's sockets",
		Long: `Measure bandwidth, latency, message rate and memory between two processes over
loopback, and beside them what plain UDP sockets do with the same packets; then
unmodified C programs over our libraries, beside the same in Go or over TCP, and
a link of windows beside memcpy, UCX and libfabric in shared memory. What
is not installed is left out. Rounds of both alternate; the median counts. Prints
a table and writes a list of JSON objects: name, value, unit, baseline, ratio,
goal, met, spread.

A goal that is not met is no error: the exit status is 0 when all was measured.`,
		Example: "  bin/verbena-bench -o bench.json\n  bin/verbena-bench --only '*latency*' --rounds 5",
		Args:    cli.Args(0, 0, "no arguments"),
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
	fs.StringVarP(&r.output, "output", "o", "bench.json", "write the results to `FILE`; empty is nowhere")
	fs.StringVar(&r.page, "page", "", "write the table into `FILE` too, between its marks, as docs/performance.md has them")
	fs.IntVar(&r.rounds, "rounds", 3, "measure `N` times, ours and the sockets' in turn")
	fs.StringVar(&r.only, "only", "", "only the measures whose name matches `GLOB`, as *latency*")
	fs.IntVar(&r.seconds, "seconds", 2, "length of a bandwidth round in `SECONDS`")
	fs.IntVar(&r.pings, "pings", 50000, "round trips of a latency round: `N`")
	fs.Int64Var(&r.rateOps, "rate-ops", 2e6, "operations of a rate round: `N`")
	fs.Int64Var(&r.flatOps, "ops", 10e6, "operations over which memory must stay flat: `N`")
	fs.IntVar(&r.idleQPs, "idle-qps", 10000, "idle queue pairs whose memory is counted: `N`")
	fs.StringVarP(&device, "ib-dev", "d", "", "use device `DEV` (default the one on loopback)")
	cmd.AddCommand(serveCommand(), idleCommand())
	return cmd
}

func (r *run) check() error {
	if r.page != "" { // before minutes have passed
		if _, _, err := aroundTable(r.page); err != nil {
			return err
		}
	}
	if _, err := path.Match(r.only, ""); err != nil {
		return cli.Usagef("--only %q: %w", r.only, err)
	}
	if r.rounds < 1 || r.seconds < 1 || r.pings < 1 || r.rateOps < 1 || r.flatOps < 1 || r.idleQPs < 1 {
		return cli.Usagef("every count must be at least 1")
	}
	if !slices.ContainsFunc(measures, r.wants) {
		return fmt.Errorf("no measure is named %q", r.only)
	}
	return nil
}

// etherPeer is p on a device that is not loopback's, for programs that refuse
// that one. What two processes of one machine say to each other goes over
// loopback all the same.
func etherPeer(p *peer) (*peer, error) {
	all, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if addr, err := localAddress(d.Name); err == nil && addr.Is4() && !addr.IsLoopback() && d.PortAttr().State == ib.PortActive {
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

// wants reports whether a measure is to be taken.
func (r *run) wants(m measure) bool {
	match, _ := path.Match(r.only, m.name)
	return r.only == "" || match
}

// all takes every measure and reports.
func (r *run) all(ctx context.Context, out io.Writer) error {
	var results []Result
	for _, m := range measures {
		if !r.wants(m) {
			continue
		}
		res, err := r.take(ctx, m)
		if errors.Is(err, errLeftOut) {
			fmt.Fprintf(r.log, "%s: %v\n", m.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		results = append(results, res)
	}
	printTable(out, results)
	if r.page != "" {
		if err := writePage(r.page, results); err != nil {
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
	if err := writeJSON(f, results); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// take runs the rounds of one measure, ours and the sockets' in turn.
func (r *run) take(ctx context.Context, m measure) (Result, error) {
	rounds := m.rounds
	if rounds == 0 {
		rounds = r.rounds
	}
	var ours, raw []float64
	for i := range rounds {
		fmt.Fprintf(r.log, "%s: round %d of %d\n", m.name, i+1, rounds)
		v, err := m.ours(ctx, r)
		if err != nil {
			return Result{}, err
		}
		ours = append(ours, v)
		if m.raw == nil {
			continue
		}
		if v, err = m.raw(ctx, r); err != nil {
			return Result{}, err
		}
		raw = append(raw, v)
	}
	return summarize(m.name, m.unit, ours, raw, m.goal), nil
}
