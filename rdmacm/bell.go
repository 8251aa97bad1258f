package rdmacm

import (
	"sync"

	"verbena/internal/monotime"
	"verbena/internal/osio/udp"
)

// bell wakes the manager's goroutine. A channel and a timer would start the Go
// runtime's poller, and the runtime ends a process that closes all its
// descriptors, those of the poller too.
type bell struct {
	mu     sync.Mutex
	poller *udp.Poller // guarded by mu; nil once nobody listens
}

func newBell() (*bell, error) {
	p, err := udp.NewPoller()
	return &bell{poller: p}, err
}

// ring makes the current or the next wait return.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.poller != nil {
		b.poller.Wake()
	}
}

// wait blocks until the bell rings or the time has come. Only the goroutine calls
// it, and close after it.
func (b *bell) wait(until monotime.Time) {
	d := monotime.Duration(-1)
	if until != monotime.Never {
		d = max(until.Sub(monotime.Now()), 0)
	}
	b.poller.Wait(d, make([]uint64, 1)) // fails if the application has closed the descriptors, slowly
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.poller.Close()
	b.poller = nil
}
