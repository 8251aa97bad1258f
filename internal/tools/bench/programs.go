// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"verbena/internal/sys/freeport"
)

// program is an unmodified C program whose client prints a figure.
type program struct {
	name string
	// args are those of both sides, server and client those of one side. PORT stands for the
	// server's TCP port, HOST for its address, SECONDS for the length of a round.
	args, server, client []string

	env    []string                          // in a value DEVICE stands for the device's name
	plain  bool                              // runs without our libraries
	ether  bool                              // refuses loopback interfaces
	silent bool                              // its server does not listen on TCP: clients try again
	cores  []int                             // of server and client; nil: any
	figure func(out string) (float64, error) // finds the figure in the client's output
}

// errLeftOut says that this machine lacks something that a measure needs. The measure is left out.
var errLeftOut = errors.New("left out")

// errNoNumber says that a figure that a program printed is infinite, or not a number.
var errNoNumber = errors.New("printed no number")

// measured runs server and client and returns the client's figure.
func (g program) measured(ctx context.Context, r *run) (float64, error) {
	out, err := g.output(ctx, r)
	if err != nil {
		return 0, err
	}
	v, err := g.figure(out)
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", g.name, err, tail(out))
	}
	return v, err
}

// output runs server and client and returns the client's words.
func (g program) output(ctx context.Context, r *run) (string, error) {
	if _, err := exec.LookPath(g.name); err != nil {
		return "", fmt.Errorf("%w: %s is not installed", errLeftOut, g.name)
	}
	on := r.peer
	if g.ether {
		var err error
		if on, err = etherPeer(r.peer); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	port, err := freeport.Free()
	if err != nil {
		return "", err
	}
	var serverOut, out bytes.Buffer
	server := g.command(ctx, r, on, port, &serverOut, 0)
	if err := server.Start(); err != nil {
		return "", err
	}
	if !g.silent {
		err = waitListening(ctx, port)
	}
	if err == nil {
		err = g.command(ctx, r, on, port, &out, 1).Run()
	}
	for end := time.Now().Add(startTimeout); g.silent && err != nil && ctx.Err() == nil &&
		time.Now().Before(end); {
		time.Sleep(retryPause)
		out.Reset()
		err = g.command(ctx, r, on, port, &out, 1).Run()
	}
	if err != nil {
		cancel()
		_ = server.Wait() // the client's error is the one to tell
		return "", fmt.Errorf("%s: %w\n%s\nits server:\n%s", g.name, err, tail(out.String()),
			tail(serverOut.String()))
	}
	if err := server.Wait(); err != nil {
		return "", fmt.Errorf("%s: server: %w\n%s", g.name, err, tail(serverOut.String()))
	}
	return out.String(), nil
}

// programTimeout bounds one run of a program.
const programTimeout = time.Minute

// command prepares one side, 0 the server and 1 the client: by "verbena run", or plainly.
func (g program) command(ctx context.Context, r *run, on *peer, port int, out *bytes.Buffer,
	side int) *exec.Cmd {
	fill := strings.NewReplacer("PORT", strconv.Itoa(port), "SECONDS", strconv.Itoa(r.seconds),
		"HOST", on.host, "DEVICE", on.device)
	argv := []string{on.verbena, "run", "--", g.name}
	if g.plain {
		argv = []string{g.name}
	}
	if g.cores != nil {
		argv = slices.Concat(pinned(g.cores[side]), argv)
	}
	for _, a := range slices.Concat(g.args, [][]string{g.server, g.client}[side]) {
		argv = append(argv, fill.Replace(a))
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = stopGrace
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = os.Environ()
	for _, e := range g.env {
		name, value, _ := strings.Cut(e, "=")
		cmd.Env = append(cmd.Env, name+"="+fill.Replace(value))
	}
	return cmd
}

// tail is the end of a program's output.
func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

const tailLines = 8

// column reads a field of the last line whose first field is key. Fields count
// from 0.
func column(key string, field int, scale float64) func(string) (float64, error) {
	return func(out string) (float64, error) {
		lines := strings.Split(out, "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			f := strings.Fields(lines[i])
			if len(f) > field && f[0] == key {
				v, err := strconv.ParseFloat(f[field], 64)
				if err == nil && (math.IsInf(v, 0) || math.IsNaN(v)) {
					err = fmt.Errorf("%w: %s", errNoNumber, f[field])
				}
				return v * scale, err
			}
		}
		return 0, fmt.Errorf("printed no line that begins with %s and has %d fields", key, field+1)
	}
}

// perftest's programs. Their MB are MiB.
func sendLatencyC() program {
	return program{name: "ib_send_lat",
		args:   []string{"-d", "DEVICE", "-s", "2", "-n", "50000", "-p", "PORT"},
		client: []string{"HOST"}, figure: column("2", 4, 1)}
}

func writeBandwidthC() program {
	return program{name: "ib_write_bw",
		args:   []string{"-d", "DEVICE", "-s", "65536", "-D", "SECONDS", "-p", "PORT"},
		client: []string{"HOST"}, figure: column("65536", 3, mebibyte/1e6)}
}

// ucx is ucx_perftest over one of UCX's transports.
func ucx(transport, test string, size, count, field int, scale float64) program {
	n := strconv.Itoa(count)
	g := program{name: "ucx_perftest",
		args: []string{"-t", test, "-s", strconv.Itoa(size), "-n", n, "-w", "1000", "-f",
			"-p", "PORT"},
		client: []string{"HOST"},
		// UCX connects RC over UD.
		env:    []string{"UCX_TLS=self,rc_verbs,ud_verbs:aux", "UCX_NET_DEVICES=DEVICE:1"},
		figure: column(n, field, scale)}
	switch transport {
	case "rc_verbs":
	case "tcp":
		g.plain, g.env = true, []string{"UCX_TLS=self,tcp", "UCX_NET_DEVICES=lo"}
	default: // through memory; the two meet over TCP
		g.plain, g.env = true, []string{"UCX_TLS=self," + transport}
	}
	return g
}

// Columns of ucx_perftest's last line.
const (
	ucxMedian    = 1 // latency in µs
	ucxBandwidth = 5 // overall, in MiB/s
)

// fabric is libfabric's fi_pingpong over one of its providers.
func fabric(provider string, size, count int) program {
	n := strconv.Itoa(size)
	shown := n // as fi_pingpong prints sizes
	switch {
	case size >= mebibyte:
		shown = strconv.Itoa(size/mebibyte) + "m"
	case size >= 1024:
		shown = strconv.Itoa(size/1024) + "k"
	}
	return program{name: "fi_pingpong",
		args:   []string{"-p", provider, "-e", "msg", "-S", n, "-I", strconv.Itoa(count)},
		server: []string{"-B", "PORT"}, client: []string{"-P", "PORT", "HOST"},
		plain: provider == "tcp", ether: true, figure: column(shown, 6, 1)}
}

// fabricShm is fi_pingpong through shared memory, which has no connections.
func fabricShm(size, count int) program {
	g := fabric("shm", size, count)
	g.plain, g.ether = true, false
	g.args = []string{"-p", "shm", "-e", "rdm", "-S", strconv.Itoa(size), "-I", strconv.Itoa(count)}
	return g
}

// startToExit measures the time of a program that has no peer, in ms.
func startToExit(name string, plain bool) func(context.Context, *run) (float64, error) {
	const times = 200
	return func(ctx context.Context, r *run) (float64, error) {
		path, err := exec.LookPath(name)
		if err != nil {
			return 0, fmt.Errorf("%w: %s is not installed", errLeftOut, name)
		}
		env := os.Environ()
		if !plain {
			// The environment that "verbena run" leaves to the program, without its own start.
			out, err := exec.CommandContext(ctx, r.verbena, "run", "--", "env", "-0").Output()
			if err != nil {
				return 0, err
			}
			env = strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		}
		var took []float64
		for range times {
			cmd := exec.CommandContext(ctx, path)
			cmd.Env = env
			start := time.Now()
			err := cmd.Run()
			_, exited := errors.AsType[*exec.ExitError](err)
			if err != nil && !(plain && exited) { // the stock library finds no device
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			took = append(took, time.Since(start).Seconds()*1e3)
		}
		return median(took), nil
	}
}
