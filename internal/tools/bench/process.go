// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"verbena/internal/sys/freeport"
)

const (
	// startTimeout bounds the wait for a server process to listen.
	startTimeout = 10 * time.Second
	retryPause   = 20 * time.Millisecond
	// stopGrace is the time for a process to end after an interrupt.
	stopGrace = 3 * time.Second
)

// peer runs the programs that measure on one device.
type peer struct {
	self    string // path of this program
	verbena string // path of the command verbena
	device  string
	host    string
	flags   []string // of both sides of a perf
	env     []string // of both, beside this process's
	in      []string // first words of its commands
	far     *peer    // has the client of a perf; nil: this one
}

// Verbena returns the path of the command verbena, which is in this program's
// folder.
func Verbena() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "verbena")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: make build leaves it there", err)
	}
	return path, nil
}

func newPeer(device, host string) (*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	verbena, err := Verbena()
	if err != nil {
		return nil, err
	}
	return &peer{self: self, verbena: verbena, device: device, host: host}, nil
}

// command prepares a process of the command verbena, which ends with ctx.
func (p *peer) command(ctx context.Context, args ...string) *exec.Cmd {
	return p.process(ctx, p.verbena, args)
}

// own prepares a process of this program, which ends with ctx.
func (p *peer) own(ctx context.Context, args ...string) *exec.Cmd {
	return p.process(ctx, p.self, args)
}

func (p *peer) process(ctx context.Context, program string, args []string) *exec.Cmd {
	argv := slices.Concat(p.in, []string{program}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// perfRow has the figures of interest in the JSON of "verbena perf".
type perfRow struct {
	Average float64 `json:"bw_average"` // MB/sec
	MsgRate float64 `json:"msg_rate_mpps"`
	Typical float64 `json:"t_typical_usec"`
}

// perf runs "verbena perf" as server and client and returns the client's
// result. watch, if set, is called with the ids of both processes while they
// run.
func (p *peer) perf(ctx context.Context, watch func(ctx context.Context, pids [2]int),
	test []string, args ...string) (perfRow, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	port, err := freeport.Free()
	if err != nil {
		return perfRow{}, err
	}
	common := func(p *peer) []string {
		return append(append(append([]string{"perf"}, test...), "-d", p.device, "-p",
			strconv.Itoa(port)), p.flags...)
	}
	far := cmp.Or(p.far, p)
	var serverErr bytes.Buffer
	server := p.command(ctx, common(p)...)
	server.Stderr = &serverErr
	if err := server.Start(); err != nil {
		return perfRow{}, err
	}
	var out []byte
	err = waitListeningAt(ctx, server.Process.Pid, port)
	if err == nil {
		out, err = far.client(ctx, server.Process.Pid, watch,
			append(append(common(far), args...), "--json", p.host))
	}
	if err != nil {
		cancel()
	}
	serverDone := server.Wait()
	switch {
	case err != nil && serverErr.Len() > 0:
		return perfRow{}, fmt.Errorf("%w; its server: %s", err,
			strings.TrimSpace(serverErr.String()))
	case err != nil:
		return perfRow{}, err
	case serverDone != nil:
		return perfRow{}, fmt.Errorf("perf server: %w: %s", serverDone,
			strings.TrimSpace(serverErr.String()))
	}
	return parsePerf(out)
}

func (p *peer) client(ctx context.Context, serverPID int, watch func(context.Context, [2]int),
	args []string) ([]byte, error) {
	cmd := p.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	watchCtx, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if watch != nil {
			watch(watchCtx, [2]int{cmd.Process.Pid, serverPID})
		}
	}()
	err := cmd.Wait()
	stop()
	<-watched
	if err != nil {
		return nil, fmt.Errorf("perf client: %w: %s", err, strings.TrimSpace(errOut.String()))
	}
	return out.Bytes(), nil
}

// parsePerf reads the one result of a run.
func parsePerf(out []byte) (perfRow, error) {
	var report struct {
		Results []perfRow `json:"results"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return perfRow{}, fmt.Errorf("perf printed no JSON: %w", err)
	}
	if len(report.Results) != 1 {
		return perfRow{}, fmt.Errorf("perf printed %d results", len(report.Results))
	}
	return report.Results[0], nil
}

// waitListening waits until a server process listens in this network namespace.
func waitListening(ctx context.Context, port int) error {
	return waitListeningAt(ctx, os.Getpid(), port)
}

// waitListeningAt waits until a process listens in the network namespace of one.
func waitListeningAt(ctx context.Context, pid, port int) error {
	for deadline := time.Now().Add(startTimeout); !freeport.ListensAt(pid, port); {
		if time.Now().After(deadline) {
			return errors.New("the server process does not listen")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
	return nil
}
