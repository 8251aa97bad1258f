// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"verbena/internal/sys/rundir"
	"verbena/internal/wire/pcap"
)

// replyTimeout bounds how long one client that does not read can keep the
// others waiting.
const replyTimeout = time.Second

// Server answers for this process until Close.
type Server struct {
	path     string
	listener *listener
	snapshot func() Snapshot
	ring     func() *pcap.Contents // nil without one
	recorder recorder
	done     sync.WaitGroup // of the goroutines

	recordMu sync.Mutex
	record   *record   // guarded by recordMu; nil without one, and once the process has ended
	kept     time.Time // guarded by recordMu: when the record's snapshot was begun

	clientMu sync.Mutex
	client   io.ReadWriteCloser // guarded by clientMu: the one that is answered; else nil
	closed   bool               // guarded by clientMu
}

// Serve starts to answer with snapshot's result, on a socket in dir, which it makes if need be;
// empty is rundir.Dir's. It removes sockets of processes that were killed. A process can do its
// work after an error, too. No other process of dir may have the name, in whatever container it is;
// empty is the process id. A process that keeps packets has them in ring, for Dump; else it is nil.
func Serve(dir, name string, snapshot func() Snapshot,
	ring func() *pcap.Contents) (*Server, error) {
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
	s := &Server{path: path, listener: l, snapshot: snapshot, ring: ring}
	last := filepath.Join(dir, name+recordSuffix)
	_ = buryOne(dir, name, true)     // a killed process's, whose name this one gets
	s.record, _ = createRecord(last) // without it a kill loses the counters
	s.done.Go(s.answer)
	if s.record != nil {
		s.done.Go(func() { s.recorder.run(shortestPause, s.keep) })
	}
	return s, nil
}

func (s *Server) answer() {
	for {
		conn, err := s.listener.accept()
		if err != nil {
			return
		}
		if !s.begin(conn) {
			conn.Close()
			return
		}
		// The record comes first: after a kill it is no older than the last answer.
		now := s.keep()
		// A client that went away, or does not read, misses its answer.
		err = json.NewEncoder(conn).Encode(now)
		if err == nil && s.ring != nil && asksForPackets(conn) {
			_ = sendPackets(conn, s.ring)
		}
		s.end(conn)
	}
}

// begin notes the client, which Close shuts off. It is false after that.
func (s *Server) begin(conn io.ReadWriteCloser) bool {
	s.clientMu.Lock()
	defer s.clientMu.Unlock()
	if !s.closed {
		s.client = conn
	}
	return !s.closed
}

func (s *Server) end(conn io.Closer) {
	s.clientMu.Lock()
	defer s.clientMu.Unlock()
	s.client = nil
	conn.Close() // under the lock: its descriptor may be another one's then
}

// shut ends the answer to a client, however slowly it reads.
func (s *Server) shut() {
	s.clientMu.Lock()
	defer s.clientMu.Unlock()
	s.closed = true
	if s.client != nil {
		shutdown(s.client)
	}
}

// keep returns a snapshot, and keeps it for the case that the process is killed.
func (s *Server) keep() Snapshot {
	began := time.Now()
	now := s.snapshot() // it takes locks that Retire's caller may hold
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.record != nil && began.After(s.kept) { // the other goroutine's may be newer
		s.kept = began
		_ = s.record.write(now) // one that is too large is left out
	}
	return now
}

// Stirred notes that the process has done something, so that its last snapshot may be old. It takes
// a nanosecond if nothing waits for that.
func (s *Server) Stirred() { s.recorder.stir() }

// Withdraw removes the socket, for a process that is about to end without Close.
func (s *Server) Withdraw() { os.Remove(s.path) }

// Close stops answering and removes the socket. It ends an answer that a client reads slowly.
// No call of the snapshot function is under way when it returns.
func (s *Server) Close() error {
	s.Withdraw()
	s.recorder.end()
	if !s.listener.end() {
		return nil
	}
	s.shut()
	s.done.Wait()
	return s.listener.close()
}
