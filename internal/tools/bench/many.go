// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// manyGroups are many threads, queue pairs and connections.
var manyGroups = append(groupsOf(
	twoAtOnce("2 threads of one process, same host", pollers{threads: 2, processes: 1}),
	twoAtOnce("2 processes, same host", pollers{threads: 1, processes: 2}),
	twoAtOnce("2 threads of one process, UDP", pollers{2, 1, []string{overUDP}}),
	twoAtOnce("2 processes, UDP", pollers{1, 2, []string{overUDP}}),
), connections(2000), busy(10000), idle(1000, 10))

// pollers are threads that poll, with two queue pairs each, in as many processes.
type pollers struct {
	threads, processes int // threads of each process
	flags              []string
}

// twoAtOnce compares two threads with one. Those of two processes share nothing of Verbena's: they
// show how far the machine itself allows it, and have no goal.
func twoAtOnce(name string, two pollers) measure {
	m := measure{name: "SEND 64 B, " + name, unit: "/s", beside: "1 thread", ours: two.rate,
		raw: pollers{1, 1, two.flags}.rate}
	if two.processes == 1 {
		m.goal = goal{bound: 1.7, atLeast: true, ratio: true}
	}
	return m
}

// rate is the number of messages a second of all of them together.
func (p pollers) rate(ctx context.Context, r *run) (sum float64, err error) {
	path, err := r.compiled(ctx, "gcc", "threads", "-libverbs")
	if err != nil {
		return 0, err
	}
	argv := append([]string{"run", "--device", r.device}, p.flags...)
	argv = append(argv, "--", path, strconv.Itoa(p.threads), fmt.Sprint(requestSeconds), r.host)
	rates, errs := make([]float64, p.processes), make([]error, p.processes)
	var all sync.WaitGroup
	for i := range p.processes {
		all.Go(func() {
			out, err := exec.CommandContext(ctx, r.verbena, argv...).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("threads: %w\n%s", err, tail(string(out)))
				return
			}
			rates[i], errs[i] = strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		})
	}
	all.Wait()
	for _, rate := range rates {
		sum += rate
	}
	return sum, errors.Join(errs...)
}

// connections measures the rate at which a client sets up connections, 32 at once.
func connections(count int) group {
	over := func(verbs bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			x, err := traffic{"C", 64, count, 1, sameHost}.round(ctx, r, verbs,
				span{seconds: calledSeconds})
			return []float64{float64(count) / x.setup.Seconds()}, err
		}
	}
	return group{rows: []row{{fmt.Sprintf("connections by rdma_cm, of %d", count), "/s", "TCP",
		goal{bound: 2000, atLeast: true}}}, ours: over(true), peer: over(false)}
}

// busy is a load over many connections at once.
func busy(count int) group {
	over := func(verbs bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			x, err := traffic{"C", 64, count, 1, sameHost}.round(ctx, r, verbs, span{seconds: 2})
			if err == nil && x.answers < float64(count) {
				err = errors.New("some connections had no answer")
			}
			return []float64{x.answers / x.seconds}, err
		}
	}
	return group{rounds: 1,
		rows: []row{{fmt.Sprintf("requests over %d connections", count), "/s", "TCP", goal{}}},
		ours: over(true), peer: over(false)}
}

// idle is a server and its clients that have nothing to say for some seconds.
func idle(count int, seconds float64) group {
	const settle = 2 * time.Second // connections settle a second after the last one
	over := func(verbs bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			x, err := traffic{"C", 64, count, 0, sameHost}.round(ctx, r, verbs,
				span{settle: settle, seconds: seconds})
			return []float64{float64(x.server.switches), float64(x.server.cpu.Microseconds())}, err
		}
	}
	name := fmt.Sprintf("server with %d idle connections, %g s", count, seconds)
	return group{rounds: 1, rows: []row{
		{name + ": wake-ups", "", "TCP", goal{more: true}},
		{name + ": CPU", "µs", "TCP", goal{more: true}},
	}, ours: over(true), peer: over(false)}
}
