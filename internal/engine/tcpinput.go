// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
)

// tcpInput is where all that comes over TCP is read: listeners, streams that are
// being set up, and those of queue pairs. There is one, from the first of them on.
type tcpInput struct {
	// immutable after newTCPInput
	eng *Engine
	set *tcp.Set

	mu      sync.Mutex
	members map[uint64]tcpMember // guarded by mu: by id in the set
	nextID  uint64               // guarded by mu
	conns   []*iwarpConn         // guarded by mu: those with a stream

	// direct are the conns where these are so few that asking each costs less than
	// asking the set and then the one that has something. Replaced, never changed
	// in place.
	direct atomic.Pointer[[]*iwarpConn]

	rxMu sync.Mutex // held while reading; taken with TryLock except to close

	// guarded by rxMu
	polls  uint64
	vec    tcp.Vectors
	iov    [][]byte
	buf    []byte
	closed bool
}

// tcpMember is something with a descriptor in the set.
type tcpMember interface {
	// ready handles an event and returns how many times something was read. The
	// caller holds rxMu.
	ready(in *tcpInput, ev tcp.Event) int
}

const (
	// maxDirect is how many connections are asked one by one.
	maxDirect = 2
	// setPolls is how many polls pass, while there are direct ones, between looks
	// at the set: it has who waits to write, and who comes.
	setPolls = 8
	// tcpBufferBytes is what is read at once of which nobody knows yet where it
	// belongs.
	tcpBufferBytes = 64 << 10
)

// tcpInput returns the engine's, beginning it for the first caller.
func (e *Engine) tcpInput() (*tcpInput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("engine: closed")
	}
	if e.tcp != nil {
		return e.tcp, nil
	}
	set, err := tcp.NewSet()
	if err != nil {
		return nil, err
	}
	in := &tcpInput{eng: e, set: set, members: map[uint64]tcpMember{}, buf: make([]byte, tcpBufferBytes)}
	in.direct.Store(&[]*iwarpConn{})
	if err := e.bg.poller.AddDescriptor(set.FD(), 0); err != nil {
		set.Close()
		return nil, err
	}
	e.addInput(in)
	e.tcp = in
	return in, nil
}

// tryPoll reads what has arrived on any stream.
func (in *tcpInput) tryPoll(patience bool) (n int) {
	if !in.rxMu.TryLock() {
		return busy
	}
	defer in.rxMu.Unlock()
	if in.closed {
		return 0
	}
	direct := *in.direct.Load()
	for _, c := range direct {
		n += c.read(in)
	}
	if in.polls++; patience && len(direct) > 0 && in.polls%setPolls != 0 {
		return n
	}
	events, err := in.set.Ready()
	if err != nil {
		in.eng.wire.readErrors.Add(1)
	}
	for _, ev := range events {
		if m := in.member(ev.ID); m != nil {
			n += m.ready(in, ev)
		}
	}
	return n
}

// tapped puts faults and capture before a connection where they are asked for.
func (in *tcpInput) tapped(c *tcp.Conn, dialled bool) faultcap.Conn {
	e := in.eng
	if e.faults.None() && e.capture == nil {
		return c
	}
	return faultcap.NewStream(c, dialled, e.faults, e.streams.Add(1), e.capture)
}

func (in *tcpInput) member(id uint64) tcpMember {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.members[id]
}

// watch has m told of what its descriptor waits for. It returns its id.
func (in *tcpInput) watch(fd int, want tcp.Interest, m tcpMember) (uint64, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nextID++
	id := in.nextID
	if err := in.set.Add(fd, id, want); err != nil {
		return 0, err
	}
	in.members[id] = m
	if c, ok := m.(*iwarpConn); ok {
		in.conns = append(in.conns, c)
		in.chooseLocked()
	}
	return id, nil
}

// unwatch ends watch. Its event may be under way still.
func (in *tcpInput) unwatch(fd int, id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	m, ok := in.members[id]
	if !ok {
		return
	}
	delete(in.members, id)
	// Not in the set: nothing to remove.
	_ = in.set.Remove(fd)
	if c, ok := m.(*iwarpConn); ok {
		in.conns = slices.DeleteFunc(in.conns, func(o *iwarpConn) bool { return o == c })
		in.chooseLocked()
	}
}

// chooseLocked decides which connections are asked directly.
func (in *tcpInput) chooseLocked() {
	var direct []*iwarpConn
	if len(in.conns) <= maxDirect {
		direct = slices.Clone(in.conns)
	}
	in.direct.Store(&direct)
}

// close ends reading. Streams must have been closed by their owners.
func (in *tcpInput) close() {
	in.eng.bg.poller.RemoveDescriptor(in.set.FD())
	in.rxMu.Lock()
	in.closed = true
	in.rxMu.Unlock()
	in.set.Close()
}
