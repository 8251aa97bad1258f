// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"errors"
	"slices"
	"sync"

	"verbena/internal/monotime"
)

// Poller lets one goroutine wait for any of several sockets, a timeout or a
// Wake. It reports as long as there is something to read. Wait is for one
// goroutine; every other method may be called by any at any time.
type Poller struct {
	wait waiter // immutable after NewPoller

	mu       sync.Mutex
	portable []portableEntry // guarded by mu: sockets the system cannot poll for us
}

type portableEntry struct {
	p      *portable
	id     uint64
	paused bool
}

// NewPoller returns a Poller without sockets.
func NewPoller() (*Poller, error) {
	p := &Poller{}
	if err := p.wait.open(); err != nil {
		return nil, err
	}
	return p, nil
}

// NewSet returns a Poller on which no goroutine waits. Threads wait for its two descriptors
// instead: FD, the set of its sockets, and WakeFD. It fails where the system has no such
// descriptors.
func NewSet() (*Poller, error) {
	p := &Poller{}
	if err := p.wait.openSet(); err != nil {
		return nil, err
	}
	return p, nil
}

// Add makes Wait report id while s has something to read. A socket may be in
// one Poller at a time.
func (p *Poller) Add(s *Socket, id uint64) error {
	pt, ok := s.io.(*portable)
	if !ok {
		return p.wait.add(s.FD(), id)
	}
	p.mu.Lock()
	p.portable = append(p.portable, portableEntry{p: pt, id: id})
	p.mu.Unlock()
	wake := p.Wake
	pt.wake.Store(&wake)
	p.Wake() // for arrivals before
	return nil
}

// AddDescriptor is Add of a descriptor that is no Socket, where the system can
// wait for those.
func (p *Poller) AddDescriptor(fd int, id uint64) error { return p.wait.add(fd, id) }

// RemoveDescriptor ends AddDescriptor.
func (p *Poller) RemoveDescriptor(fd int) error { return p.wait.remove(fd) }

// Remove ends Add; call it before s is closed.
func (p *Poller) Remove(s *Socket) error {
	pt, ok := s.io.(*portable)
	if !ok {
		return p.wait.remove(s.FD())
	}
	pt.wake.Store(nil)
	p.mu.Lock()
	p.portable = slices.DeleteFunc(p.portable, func(e portableEntry) bool { return e.p == pt })
	p.mu.Unlock()
	return nil
}

// AddFD is Add of a descriptor that is no Socket, where the system has such.
func (p *Poller) AddFD(fd int, id uint64) error { return p.wait.add(fd, id) }

// RemoveFD ends AddFD; call it before fd is closed.
func (p *Poller) RemoveFD(fd int) error { return p.wait.remove(fd) }

// PauseFD makes Wait ignore a descriptor that AddFD added, or ends that.
func (p *Poller) PauseFD(fd int, id uint64, paused bool) error {
	return p.wait.setPaused(fd, id, paused)
}

// Pause makes Wait ignore s: somebody else reads it for now.
func (p *Poller) Pause(s *Socket, id uint64) error { return p.setPaused(s, id, true) }

// Resume ends Pause. Arrivals meanwhile are reported.
func (p *Poller) Resume(s *Socket, id uint64) error { return p.setPaused(s, id, false) }

func (p *Poller) setPaused(s *Socket, id uint64, paused bool) error {
	pt, ok := s.io.(*portable)
	if !ok {
		return p.wait.setPaused(s.FD(), id, paused)
	}
	p.mu.Lock()
	for i := range p.portable {
		if e := &p.portable[i]; e.p == pt {
			e.paused = paused
		}
	}
	p.mu.Unlock()
	if !paused {
		p.Wake()
	}
	return nil
}

// Wait blocks until a socket has something to read, Wake was called since the
// last Wait returned, or timeout has passed (0: do not block; negative: for
// ever). A signal may end it sooner. It puts the ids of readable sockets into ready, which must
// not be empty, and returns their number.
func (p *Poller) Wait(timeout monotime.Duration, ready []uint64) (int, error) {
	if len(ready) == 0 {
		return 0, errors.New("udp: Wait needs room for a ready socket")
	}
	n := p.readyPortable(ready)
	if n > 0 {
		timeout = 0
	}
	m := 0
	if n < len(ready) {
		var err error
		if m, err = p.wait.wait(timeout, ready[n:]); err != nil {
			return n, err
		}
	}
	if n == 0 && m < len(ready) { // a portable socket may have woken us
		n = p.readyPortable(ready[m:])
	}
	return n + m, nil
}

func (p *Poller) readyPortable(ready []uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.portable {
		if n < len(ready) && !e.paused && e.p.pending() {
			ready[n] = e.id
			n++
		}
	}
	return n
}

// Wake makes the current or the next Wait return.
func (p *Poller) Wake() { p.wait.wake() }

// WakeFD returns an eventfd, which another process may be given: a write to it acts as Wake does.
// It stays the Poller's. -1 where there is none.
func (p *Poller) WakeFD() int { return p.wait.wakeFD() }

// FD returns a descriptor that is readable while a socket has something to read. It stays the
// Poller's. -1 where there is none.
func (p *Poller) FD() int { return p.wait.pollFD() }

// Silence ends the effect of Wake and of writes to WakeFD, for a Poller of NewSet. It is to be
// called before the caller looks at the things that they announce.
func (p *Poller) Silence() { p.wait.silence() }

// Lost reports whether the application has closed the Poller's descriptors
// behind our back. Wait may never return then, and Close must not be called: the
// numbers may be other files' by now.
func (p *Poller) Lost() bool { return p.wait.lost() }

// Close frees the Poller's descriptors, not the sockets. Nobody may be in Wait.
func (p *Poller) Close() error { return p.wait.close() }
