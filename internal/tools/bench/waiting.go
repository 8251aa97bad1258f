// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// blockingPings is ib_send_lat with completion events, beside two processes that block
// on sockets and on eventfds.
var blockingPings = group{
	rows: []row{
		{"ib_send_lat -e 2 B, one way: median", "µs", "TCP", goal{bound: 1, ratio: true}},
		{"ib_send_lat -e 2 B, one way: 99 %", "µs", "TCP", goal{bound: 1, ratio: true}},
		{"ib_send_lat -e 2 B, one way: median", "µs", "eventfd", goal{}},
		{"ib_send_lat -e 2 B, one way: 99 %", "µs", "eventfd", goal{}},
	},
	ours: func(ctx context.Context, r *run) ([]float64, error) {
		v, err := sendLatencies(ctx, r, pings, "-e")
		return append(v, v...), err
	},
	peer: func(ctx context.Context, r *run) ([]float64, error) {
		tcp, err := pingpong(ctx, r, "tcp", pings)
		if err != nil {
			return nil, err
		}
		bells, err := pingpong(ctx, r, "eventfd", pings)
		return append(tcp, bells...), err
	},
}

// pings is the number of round trips of a process that sleeps, loadedPings on a loaded
// machine. clockTries is how many runs may print no number.
const (
	pings       = 10000
	loadedPings = 3000
	clockTries  = 3
)

// sendLatencies returns the median and the 99th percentile of ib_send_lat.
func sendLatencies(ctx context.Context, r *run, count int, flags ...string) ([]float64, error) {
	return sendLatenciesOf(ctx, r, program{args: append([]string{"-d", "DEVICE", "-n",
		strconv.Itoa(count)}, flags...)})
}

// sendLatenciesOf is sendLatencies with the device and the number of messages among the arguments.
// On a loaded machine perftest may not find the rate of its clock. It prints infinite figures then,
// and is run again.
func sendLatenciesOf(ctx context.Context, r *run, g program) (both []float64, err error) {
	g.name, g.client = "ib_send_lat", []string{"HOST"}
	g.args = append([]string{"-s", "2", "-p", "PORT"}, g.args...)
	for range clockTries {
		var out string
		if out, err = g.output(ctx, r); err != nil {
			return nil, err
		}
		if both, err = latencies(out); !errors.Is(err, errNoNumber) {
			break
		}
	}
	return both, err
}

// latencies returns the median and the 99th percentile that ib_send_lat printed.
func latencies(out string) ([]float64, error) {
	median, err := column("2", 4, 1)(out)
	if err != nil {
		return nil, err
	}
	high, err := column("2", 7, 1)(out)
	return []float64{median, high}, err
}

// pingpong returns the median and the 99th percentile of c/pingpong.c, with its ends on two cores.
func pingpong(ctx context.Context, r *run, over string, count int, cores ...int) ([]float64,
	error) {
	path, err := r.compiled(ctx, "gcc", "pingpong")
	if err != nil {
		return nil, err
	}
	args := []string{over, strconv.Itoa(count)}
	for _, core := range cores {
		args = append(args, strconv.Itoa(core))
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("pingpong %s: %w", over, err)
	}
	v := make([]float64, 2)
	_, err = fmt.Sscan(string(out), &v[0], &v[1])
	return v, err
}

// streamMeasures are blocking streams of rdma-core's rstream, over rsockets and over TCP.
var streamMeasures = []measure{
	stream(64, 1, 5000), stream(64, 20000, 1), stream(4<<10, 20000, 1),
	stream(64<<10, 4000, 1), stream(1<<20, 500, 1),
}

// stream is messages in bursts, one way and then the other. Bursts of one are a ping-pong.
func stream(size, burst, count int) measure {
	over := func(flags ...string) program {
		args := append([]string{"-p", "PORT", "-T", "b", "-S", strconv.Itoa(size), "-C",
			strconv.Itoa(burst), "-I", strconv.Itoa(count)}, flags...)
		return program{name: "rstream", args: args, client: []string{"-s", "HOST"},
			plain: len(flags) > 0, silent: true}
	}
	ours, raw := over(), over("-T", "s")
	m := measure{name: "rstream " + bytesText(size) + ", blocking", unit: "MB/s", beside: "TCP",
		goal: goal{bound: 1, atLeast: true, ratio: true}}
	field, scale := 6, 1e3/8 // Gb/s
	if burst == 1 {
		m.name, m.unit = "rstream "+bytesText(size)+", blocking, one way", "µs"
		m.goal.atLeast = false
		field, scale = 7, 1
	}
	ours.figure, raw.figure = column("custom", field, scale), column("custom", field, scale)
	m.ours, m.raw = ours.measured, raw.measured
	return m
}

// loadedGroups are ping-pongs while each core has a process that burns it. A message over TCP hands
// the core of its writer to its reader, if the two share it. So each row says where the ends run.
var loadedGroups = slices.Concat(
	loaded("ib_send_lat 2 B, polling", program{args: []string{"-d", "DEVICE"}}),
	loaded("ib_send_lat -e 2 B", program{args: []string{"-d", "DEVICE", "-e"}}),
	loaded("ib_send_lat 2 B, polling, UDP", program{args: []string{"-d", "DEVICE"},
		env: []string{"VERBENA_LOCAL=off"}}),
	loaded("ib_send_lat 2 B, polling, iWARP", program{args: []string{"-R"},
		env: []string{"VERBENA_DEVICES=iwarp"}, silent: true}),
)

// loaded has a group for two ends on one core, and one for two ends with a core each.
func loaded(name string, g program) []group {
	return []group{loadedOn(name, "one core", 1, g), loadedOn(name, "a core each", 2, g)}
}

func loadedOn(name, where string, cores int, g program) group {
	g.args = append(slices.Clip(g.args), "-n", strconv.Itoa(loadedPings))
	type figures func(ctx context.Context, r *run, ends []int) ([]float64, error)
	under := func(f figures) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			all, err := allowedCores()
			if err != nil {
				return nil, err
			}
			if len(all) < cores {
				return nil, fmt.Errorf("%w: %d cores", errLeftOut, len(all))
			}
			stop, err := burn(ctx, all)
			if err != nil {
				return nil, err
			}
			defer stop()
			return f(ctx, r, []int{all[0], all[cores-1]})
		}
	}
	name += ", loaded, " + where
	return group{
		rows: []row{
			{name + ": median", "µs", "TCP", goal{}},
			{name + ": 99 %", "µs", "TCP", goal{bound: 2, ratio: true}},
		},
		ours: under(func(ctx context.Context, r *run, ends []int) ([]float64, error) {
			on := g
			on.cores = ends
			return sendLatenciesOf(ctx, r, on)
		}),
		peer: under(func(ctx context.Context, r *run, ends []int) ([]float64, error) {
			return pingpong(ctx, r, "tcp", loadedPings, ends...)
		}),
	}
}

// burn starts a process on each core that computes until stop.
func burn(ctx context.Context, cores []int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range all {
			_ = cmd.Wait() // killed
		}
	}
	for _, core := range cores {
		argv := append(pinned(core), "sh", "-c", "while :; do :; done")
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, cmd)
	}
	return stop, nil
}

// pinned begins the command line of a process that stays on a core.
func pinned(core int) []string { return []string{"taskset", "-c", strconv.Itoa(core)} }

// allowedCores returns the cores that this process may use.
func allowedCores() ([]int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLeftOut, err)
	}
	_, list, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	return coreList(strings.TrimSpace(list))
}

// coreList reads a list such as 0-2,5.
func coreList(list string) (all []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		low, high, ok := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && ok {
			last, err = strconv.Atoi(high)
		}
		if err != nil {
			return nil, fmt.Errorf("a list of cores: %w", err)
		}
		for core := first; core <= last; core++ {
			all = append(all, core)
		}
	}
	return all, nil
}
