package stats

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// replyTimeout bounds how long one client that does not read can keep the
// others waiting.
const replyTimeout = time.Second

// Server answers for this process until Close.
type Server struct {
	listener *listener
	done     chan struct{} // closed when the goroutine has ended
}

// Serve starts to answer with what snapshot returns, on a socket in dir, which
// is made if need be. The error says what stands in the way; a process can do
// its work without being asked for counters.
func Serve(dir string, snapshot func() Snapshot) (*Server, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fmt.Sprintf("%d%s", os.Getpid(), suffix))
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // of a former process with this id
		return nil, err
	}
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, done: make(chan struct{})}
	go s.answer(snapshot)
	return s, nil
}

func (s *Server) answer(snapshot func() Snapshot) {
	defer close(s.done)
	for {
		conn, err := s.listener.accept()
		if err != nil {
			return
		}
		// A client that went away, or does not read, misses its answer.
		_ = json.NewEncoder(conn).Encode(snapshot())
		conn.Close()
	}
}

// Close stops answering and removes the socket. No call of the snapshot
// function is under way when it returns.
func (s *Server) Close() error {
	if !s.listener.end() {
		return nil
	}
	<-s.done
	return s.listener.close()
}
