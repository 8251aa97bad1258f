// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"verbena/internal/sys/rundir"
)

// replyTimeout bounds how long one client that does not read can keep the
// others waiting.
const replyTimeout = time.Second

const (
	// shortestPause is the time between two snapshots that are kept for the case that the process
	// is killed, while its counters grow. Else the time doubles, up to longestPause.
	shortestPause = time.Second
	longestPause  = 64 * time.Second
	// keepShare bounds the share of time that these snapshots take: of many queue pairs they are
	// slow.
	keepShare = 1000
)

// Server answers for this process until Close.
type Server struct {
	path     string
	listener *listener
	done     chan struct{} // closed when the goroutine has ended

	recordMu sync.Mutex
	record   *record // guarded by recordMu; nil without one, and once the process has ended
}

// Serve starts to answer with snapshot's result, on a socket in dir, which it makes if need be;
// empty is rundir.Dir's. It removes sockets of processes that were killed. A process can do its
// work after an error, too. No other process of dir may have the name, in whatever container it is;
// empty is the process id.
func Serve(dir, name string, snapshot func() Snapshot) (*Server, error) {
	if dir == "" {
		dir, _ = rundir.Dir() // its error only tells why XDG_RUNTIME_DIR is not used
	}
	if err := rundir.Make(dir); err != nil {
		return nil, err
	}
	sweep(dir)
	if name == "" {
		name = strconv.Itoa(os.Getpid())
	}
	path := filepath.Join(dir, name+suffix)
	// It may be of a former process with this name.
	if err := os.Remove(path + unready); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := listen(path + unready)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(path+unready, path); err != nil {
		l.close()
		return nil, err
	}
	s := &Server{path: path, listener: l, done: make(chan struct{})}
	last := filepath.Join(dir, name+recordSuffix)
	_ = buryOne(dir, name, true)     // a killed process's, whose name this one gets
	s.record, _ = createRecord(last) // without it a kill loses the counters
	go s.answer(snapshot)
	return s, nil
}

func (s *Server) answer(snapshot func() Snapshot) {
	defer close(s.done)
	k := keeper{pause: shortestPause}
	for {
		conn, err := s.listener.accept(k.pause)
		asked := err == nil
		if !asked && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		began := time.Now()
		now := snapshot()
		// The record comes first: after a kill it is no older than the last answer.
		if grown := k.keep(s, now); grown {
			k.pause = min(max(shortestPause, keepShare*time.Since(began)), longestPause)
		} else if !asked {
			k.pause = min(2*k.pause, longestPause)
		}
		if asked {
			// A client that went away, or does not read, misses its answer.
			_ = json.NewEncoder(conn).Encode(now)
			conn.Close()
		}
	}
}

// keeper keeps snapshots for the case that the process is killed.
type keeper struct {
	pause time.Duration
	total uint64 // of all counters, at the last one
}

// keep keeps a snapshot if counters have grown since the last one.
func (k *keeper) keep(s *Server, now Snapshot) (grown bool) {
	total := uint64(0)
	for _, d := range now.Devices {
		for _, c := range d.Counters {
			total += c.Value
		}
	}
	if total == k.total {
		return false
	}
	k.total = total
	s.recordMu.Lock()
	if s.record != nil {
		_ = s.record.write(now) // one that is too large is left out
	}
	s.recordMu.Unlock()
	return true
}

// Withdraw removes the socket, for a process that is about to end without Close.
func (s *Server) Withdraw() { os.Remove(s.path) }

// Close stops answering and removes the socket. No call of the snapshot
// function is under way when it returns.
func (s *Server) Close() error {
	s.Withdraw()
	if !s.listener.end() {
		return nil
	}
	<-s.done
	return s.listener.close()
}
