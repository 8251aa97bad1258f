// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/sys/tcp"
)

// input reads all TCP streams: listeners, streams that are being set up, and those of queue pairs.
// There is one, from the first stream on.
type input struct {
	// immutable after Transport.input
	eng *engine.Engine
	set *tcp.Set

	mu      sync.Mutex
	members map[uint64]member // guarded by mu: by id in the set
	nextID  uint64            // guarded by mu
	conns   []*Conn           // guarded by mu: those with a stream

	// direct are the conns where these are so few that asking each costs less than
	// asking the set and then the one that has something. Replaced, never changed
	// in place.
	direct atomic.Pointer[[]*Conn]

	rxMu sync.Mutex // held while reading; taken with TryLock except to close

	// guarded by rxMu
	polls   uint64 // since the set was asked; most count as fullPolls
	blocked bool   // a stream that was just read waits to write
	vec     tcp.Vectors
	iov     [][]byte
	buf     []byte
	gaps    [rdmap.GapsBytes]byte
	closed  bool
}

// member is something with a descriptor in the set.
type member interface {
	// ready handles an event and returns how many times something was read. The
	// caller holds rxMu.
	ready(in *input, ev tcp.Event) int
}

// bufferBytes is the size of one read of bytes whose place is not known yet.
const bufferBytes = 64 << 10

// input returns the engine's, beginning it for the first caller.
func (t *Transport) input() (*input, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.eng.Closed(); err != nil {
		return nil, err
	}
	if t.in != nil {
		return t.in, nil
	}
	set, err := tcp.NewSet()
	if err != nil {
		return nil, err
	}
	in := &input{eng: t.eng, set: set, members: map[uint64]member{}, buf: make([]byte, bufferBytes)}
	in.direct.Store(&[]*Conn{})
	if err := t.eng.Poller().AddDescriptor(set.FD(), 0); err != nil {
		set.Close()
		return nil, err
	}
	t.eng.AddInput(in)
	t.in = in
	return in, nil
}

// fullPolls polls count as one of policy.StreamSetPolls, if they found something on the streams
// asked directly. While one of these waits to write each poll counts.
const fullPolls = 8

// TryPoll implements engine.Input: it reads arrived bytes of any stream.
func (in *input) TryPoll(mayDelayAck bool) (n int) {
	if !in.rxMu.TryLock() {
		return engine.Busy
	}
	defer in.rxMu.Unlock()
	if in.closed {
		return 0
	}
	direct := *in.direct.Load()
	in.blocked = false
	for _, c := range direct {
		n += c.read(in)
	}
	if in.polls++; n == 0 || in.blocked {
		in.polls += fullPolls - 1
	}
	if mayDelayAck && len(direct) > 0 && in.polls < fullPolls*policy.StreamSetPolls {
		return n
	}
	in.polls = 0
	events, err := in.set.Ready()
	if err != nil {
		in.eng.CountReadError()
	}
	for _, ev := range events {
		if m := in.memberOf(ev.ID); m != nil {
			n += m.ready(in, ev)
		}
	}
	return n
}

func (in *input) memberOf(id uint64) member {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.members[id]
}

// watch has m notified of the events of its descriptor. It returns its id.
func (in *input) watch(fd int, want tcp.Interest, m member) (uint64, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nextID++
	id := in.nextID
	if err := in.set.Add(fd, id, want); err != nil {
		return 0, err
	}
	in.members[id] = m
	if c, ok := m.(*Conn); ok {
		in.conns = append(in.conns, c)
		in.chooseLocked()
	}
	return id, nil
}

// unwatch ends watch. Its event may be under way still.
func (in *input) unwatch(fd int, id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	m, ok := in.members[id]
	if !ok {
		return
	}
	delete(in.members, id)
	// Not in the set: nothing to remove.
	_ = in.set.Remove(fd)
	if c, ok := m.(*Conn); ok {
		in.conns = slices.DeleteFunc(in.conns, func(o *Conn) bool { return o == c })
		in.chooseLocked()
	}
}

// chooseLocked decides which connections are asked directly.
func (in *input) chooseLocked() {
	var direct []*Conn
	if len(in.conns) <= policy.DirectStreams {
		direct = slices.Clone(in.conns)
	}
	in.direct.Store(&direct)
}

// Stop implements engine.Input. Streams must have been closed by their owners.
func (in *input) Stop() {
	in.eng.Poller().RemoveDescriptor(in.set.FD())
	in.rxMu.Lock()
	in.closed = true
	in.rxMu.Unlock()
	in.set.Close()
}
