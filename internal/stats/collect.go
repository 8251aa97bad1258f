// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"verbena/internal/sys/rundir"
)

const (
	suffix = rundir.StatsSuffix
	// unready stands behind the name of a socket until somebody listens, so that
	// one on which nobody does is known to be a dead process's.
	unready = ".new"

	// askTimeout bounds the wait for one process, which may be stopped.
	askTimeout = 2 * time.Second
	// askedAtOnce bounds the descriptors of Collect.
	askedAtOnce = 64
	// maxSnapshotBytes bounds the bytes read from one process.
	maxSnapshotBytes = 64 << 20 // 16,368 queue pairs have some 16 MB
)

// Collect asks every process that serves in dir and returns their snapshots,
// ordered by process id. Processes that do not answer are left out, sockets of
// dead ones removed. A directory that does not exist means no process; one that others may write in
// is an error.
func Collect(ctx context.Context, dir string) ([]Snapshot, error) {
	all, _, err := collect(ctx, dir, "")
	return all, err
}

// CollectIn is Collect for the processes of a network namespace.
func CollectIn(ctx context.Context, dir, namespace string) ([]Snapshot, error) {
	all, _, err := collect(ctx, dir, namespace+"-")
	return all, err
}

// collect asks every process whose socket in dir begins with prefix, several at once: those that
// are stopped delay no others. The names are those of the processes that answered. After ctx's end
// it returns the snapshots that came in time, and an error.
func collect(ctx context.Context, dir, prefix string) (all []Snapshot, names map[string]bool,
	err error) {
	if err := trusted(dir); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	answers, err := askEach(ctx, dir, entries, prefix)
	names = map[string]bool{}
	for name, s := range answers {
		names[name] = true
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.PID, b.PID) })
	return all, names, err
}

// askEach asks the processes whose sockets are among the entries of dir and begin with prefix. It
// returns the answers that came in time, by name.
func askEach(ctx context.Context, dir string, entries []os.DirEntry,
	prefix string) (map[string]Snapshot, error) {
	answers := map[string]Snapshot{}
	var asked sync.WaitGroup
	var mu sync.Mutex // of answers
	room := make(chan struct{}, askedAtOnce)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		room <- struct{}{}
		asked.Go(func() {
			defer func() { <-room }()
			if s, err := ask(ctx, filepath.Join(dir, e.Name())); err == nil {
				mu.Lock()
				answers[name] = s
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	// A socket's deadline, which is ctx's where that is nearer, may come before ctx notices.
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return answers, context.DeadlineExceeded
	}
	return answers, ctx.Err()
}

func ask(ctx context.Context, path string) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := dial(ctx, path)
	if err != nil {
		return Snapshot{}, err
	}
	defer conn.Close()
	var s Snapshot
	err = json.NewDecoder(io.LimitReader(conn, maxSnapshotBytes)).Decode(&s)
	s.printable()
	return s, err
}

// dial connects to a process. It removes the socket of a dead one.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
	if err == nil {
		deadline, _ := ctx.Deadline()
		conn.SetDeadline(deadline)
	}
	return conn, err
}
