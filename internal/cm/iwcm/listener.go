// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"net/netip"
	"slices"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// Bounds on the memory that peers may take of a listener.
const (
	maxBacklog = 1024
	// maxStrangers bounds the streams that the application does not know yet. That is enough for a
	// burst of peers that all come at once. It is few enough that peers that never ask cost little.
	// One address may have half as many.
	maxStrangers = 256
	minStrangers = 8
	// strangerWait bounds the time for which a stream may stay a stranger: as long as a Reply may
	// take. A peer has less time for its Request, see package mpa.
	strangerWait = connectWait
)

// Listener holds the connections of a listener that are not answered.
type Listener struct {
	// Refused, if not nil, is called with each connection that is given up before the application
	// has answered its request. The peer has not ended it. Refused must not call the Listener.
	Refused func(c *Conn, why Fault)

	backlog   int
	most      int // strangers
	count     *Counters
	strangers []*Conn // that Next has not brought, with a Request or without; the oldest first
	pending   []*Conn // requests that it has brought and that are not answered
}

// NewListener returns a listener for at most backlog requests at a time, 1,024
// if it is not positive. Those beyond are strangers, as are streams that have not
// asked: at most so many, within bounds. Each costs a descriptor.
func NewListener(backlog, strangers int, count *Counters) *Listener {
	if backlog <= 0 || backlog > maxBacklog {
		backlog = maxBacklog
	}
	return &Listener{backlog: backlog, most: min(max(strangers, minStrangers), maxStrangers),
		count: count}
}

// Take begins with a stream that came from an address. IRD and ORD in o are of no
// meaning: Accept has them. dropped, if not nil, is a connection that has to give way,
// the oldest stranger or that of the same address: its stream is to be aborted.
func (l *Listener) Take(now monotime.Time, from netip.Addr, o mpa.Options) (c, dropped *Conn) {
	if dropped = l.crowded(from); dropped != nil {
		dropped.close(FaultCrowded, WantAbort)
	}
	l.count[Taken]++
	c = &Conn{
		opt: o, count: l.count, state: Awaiting, listener: l, from: from,
		mpa: mpa.NewResponder(now, o), deadline: now.Add(strangerWait),
	}
	l.strangers = append(l.strangers, c)
	return c, dropped
}

// crowded returns the stranger that gives way to another one from an address, nil if
// there is room.
func (l *Listener) crowded(from netip.Addr) *Conn {
	var oldest *Conn
	n := 0
	for _, c := range l.strangers {
		if c.from == from {
			if n++; oldest == nil {
				oldest = c
			}
		}
	}
	switch {
	case n >= l.most/2:
		return oldest
	case len(l.strangers) >= l.most:
		return l.strangers[0]
	}
	return nil
}

// Next returns the next request for the application, nil if there is none or
// the backlog is full. Look again when a request has been answered or is gone.
func (l *Listener) Next() *Conn {
	if l.Full() {
		return nil
	}
	i := slices.IndexFunc(l.strangers, func(c *Conn) bool { return c.state == Requested })
	if i < 0 {
		return nil
	}
	c := l.strangers[i]
	l.strangers = slices.Delete(l.strangers, i, i+1)
	l.pending = append(l.pending, c)
	c.deadline = monotime.Never // the application may take its time
	return c
}

// Full reports whether the backlog is full.
func (l *Listener) Full() bool { return len(l.pending) >= l.backlog }

// Close ends all connections that the application has not seen, and returns
// them: their streams are to be closed as each says.
func (l *Listener) Close() []*Conn {
	gone := slices.Clone(l.strangers)
	for _, c := range gone {
		c.Destroy()
	}
	return gone
}

// changed keeps the books when a connection has changed its state.
func (l *Listener) changed(c *Conn) {
	if c.state == Requested {
		l.count[Requests]++
		if l.Full() {
			l.count[HeldBack]++
		}
		return
	}
	l.strangers = without(l.strangers, c)
	if c.state != Closed {
		l.answered(c)
	}
}

// answered notes that the application has done with a request. Until then one whose
// peer has gone counts: the application has it to look at.
func (l *Listener) answered(c *Conn) { l.pending = without(l.pending, c) }

func without(all []*Conn, c *Conn) []*Conn {
	return slices.DeleteFunc(all, func(o *Conn) bool { return o == c })
}
