// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// manyGroups are many threads, queue pairs and connections.
var manyGroups = append(groupsOf(
	twoThreads("same host"),
	twoThreads("UDP", overUDP),
), connections(2000), busy(10000), idle(1000, 10))

// twoThreads compares two threads that poll, with two queue pairs each, with one.
func twoThreads(name string, flags ...string) measure {
	with := func(threads int) func(context.Context, *run) (float64, error) {
		return func(ctx context.Context, r *run) (float64, error) {
			path, err := r.compiled(ctx, "gcc", "threads", "-libverbs")
			if err != nil {
				return 0, err
			}
			argv := append([]string{"run", "--device", r.device}, flags...)
			argv = append(argv, "--", path,
				strconv.Itoa(threads), fmt.Sprint(requestSeconds), r.host)
			out, err := exec.CommandContext(ctx, r.verbena, argv...).CombinedOutput()
			if err != nil {
				return 0, fmt.Errorf("threads: %w\n%s", err, tail(string(out)))
			}
			return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		}
	}
	return measure{name: "SEND 64 B, 2 threads of one process, " + name, unit: "/s",
		beside: "1 thread", goal: goal{bound: 1.7, atLeast: true, ratio: true}, ours: with(2),
		raw: with(1)}
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
