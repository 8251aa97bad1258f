package engine

import (
	"runtime"
	"time"

	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/rdma"
)

// takePause is how soon TakeMemory looks again.
const takePause = 100 * time.Microsecond

// TakeMemory returns memory of the application's part of our window: what is
// registered there peers write without a copy on the way. It is not cleared. Where
// the window was another process's before, it waits until the peer knows that
// this one is gone, or is known to be silent.
func (l *NTB) TakeMemory(n uint64) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.inherited && !l.closed && !l.dead {
		if l.inherited = l.link == nil || l.node.Channel().Stale(monotime.Now()); l.inherited {
			l.mu.Unlock()
			l.opener.Pause(takePause)
			l.mu.Lock()
		}
	}
	if l.closed || l.dead {
		return nil, false
	}
	at, ok := l.node.TakeMemory(n)
	if !ok {
		return nil, false
	}
	return l.opener.Own().Bytes(at, n)
}

// GiveMemory takes back what TakeMemory returned.
func (l *NTB) GiveMemory(b []byte) {
	at, ok := l.opener.Own().PlaceOf(b)
	if !ok {
		panic("engine: memory that is not of the window")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node.GiveMemory(at, uint64(len(b)))
}

// Expose has peers write straight to a region if b, which is its memory, lies in
// our window. It reports whether Withdraw must be called.
func (l *NTB) Expose(mr *mem.Region, b []byte) bool {
	at, ok := l.opener.Own().PlaceOf(b)
	if !ok {
		return false
	}
	l.mu.Lock()
	err := l.node.Expose(mr, rdma.Piece(at, uint64(len(b))))
	l.leave(monotime.Now())
	return err == nil
}

// Withdraw ends Expose. When it returns no peer writes to the region any more, or
// the link is down. That takes a round trip, or as long as a peer that has stopped
// takes to be found out.
func (l *NTB) Withdraw(mr *mem.Region) {
	l.mu.Lock()
	now := monotime.Now()
	l.node.Withdraw(now, mr)
	for done := false; !done; {
		done = l.node.Withdrawn(now, mr)
		l.leave(now)
		if !done {
			runtime.Gosched()
			l.tryPoll(false)
			now = monotime.Now()
			l.eng.fireDue(now)
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
}
