package iwcm

import (
	"slices"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// Bounds on what peers may make a listener hold.
const (
	maxBacklog = 1024
	// maxAwaiting is how many streams may be there that have not asked for
	// anything: enough for a burst of peers that all come at once, and few
	// enough that those who never ask cost little.
	maxAwaiting = 256
)

// Listener holds the connections of a listener that are not answered.
type Listener struct {
	backlog  int
	count    *Counters
	awaiting []*Conn // the oldest first
	held     []*Conn // requests that Next has not brought, likewise
	pending  []*Conn // those that it has and that are not answered
}

// NewListener returns a listener for at most backlog requests at a time, 1,024
// if it is not positive.
func NewListener(backlog int, count *Counters) *Listener {
	if backlog <= 0 || backlog > maxBacklog {
		backlog = maxBacklog
	}
	return &Listener{backlog: backlog, count: count}
}

// Take begins with a stream that came. IRD and ORD in o are of no meaning:
// Accept has them. dropped, if not nil, is a connection that has to give way: its
// stream is to be aborted.
func (l *Listener) Take(now monotime.Time, o mpa.Options) (c, dropped *Conn) {
	if len(l.awaiting) == maxAwaiting {
		dropped = l.awaiting[0]
		dropped.close(FaultCrowded, WantAbort)
	}
	l.count[Taken]++
	c = &Conn{opt: o, count: l.count, state: Awaiting, listener: l, mpa: mpa.NewResponder(now, o), deadline: monotime.Never}
	l.entered(c)
	return c, dropped
}

// Next returns the next request for the application, nil if there is none or
// the backlog is full. Look again when a request has been answered or is gone.
func (l *Listener) Next() *Conn {
	if len(l.held) == 0 || len(l.pending) >= l.backlog {
		return nil
	}
	c := l.held[0]
	l.held = l.held[1:]
	l.pending = append(l.pending, c)
	return c
}

// Full reports whether the backlog is full.
func (l *Listener) Full() bool { return len(l.pending) >= l.backlog }

// Close ends all connections that the application has not seen, and returns
// them: their streams are to be closed as each says.
func (l *Listener) Close() []*Conn {
	gone := slices.Concat(l.awaiting, l.held)
	for _, c := range gone {
		c.Destroy()
	}
	return gone
}

// left and entered keep the books when a connection changes its state.
func (l *Listener) left(c *Conn) {
	same := func(o *Conn) bool { return o == c }
	switch c.state {
	case Awaiting:
		l.awaiting = slices.DeleteFunc(l.awaiting, same)
	case Requested:
		l.held = slices.DeleteFunc(l.held, same)
		l.pending = slices.DeleteFunc(l.pending, same)
	}
}

func (l *Listener) entered(c *Conn) {
	switch c.state {
	case Awaiting:
		l.awaiting = append(l.awaiting, c)
	case Requested:
		l.count[Requests]++
		if l.Full() {
			l.count[HeldBack]++
		}
		l.held = append(l.held, c)
	}
}
