package perf

import "context"

// makeQPs makes the queue pairs; with the connection manager that is done
// while connecting.
func (s *session) makeQPs() ([]QPAddr, error) {
	return s.e.createQPs()
}

// connectQPs connects the queue pairs to the peer's.
func (s *session) connectQPs(_ context.Context, mine []QPAddr) error {
	return s.e.connectQPs(mine, s.peer)
}
