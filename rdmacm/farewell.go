package rdmacm

import (
	"slices"

	"verbena/internal/backdoor"
	"verbena/internal/monotime"
)

// farewell is a Disconnected event that is still to be raised: not before what the peer sent
// is completed and polled, as far as that does not take long. A device of hardware
// has long completed it when the peer's DREQ, which goes another way, is told; here both may
// wait for the same processor. An application that destroys its queue pair at that event,
// as libfabric's rxm does on a thread for that, would lose the last message.
type farewell struct {
	c     *ibConnector
	event Event
	until monotime.Time
}

const (
	farewellPatience = 100 * monotime.Millisecond
	farewellPause    = monotime.Millisecond // between looks
)

// due reports whether nothing is to be waited for any more.
func (f *farewell) due() bool {
	f.c.mu.Lock()
	qp := f.c.qp
	f.c.mu.Unlock()
	return qp == nil || !backdoor.Unpolled(qp) || !monotime.Now().Before(f.until)
}

// release raises the events that are due, on the manager's goroutine.
func (b *ibManager) release(due func(*farewell) bool) {
	b.held = slices.DeleteFunc(b.held, func(f farewell) bool {
		if !due(&f) {
			return false
		}
		f.c.mu.Lock()
		defer f.c.mu.Unlock()
		if f.c.state != stDestroyed {
			f.c.raise(f.event)
		}
		return true
	})
}
