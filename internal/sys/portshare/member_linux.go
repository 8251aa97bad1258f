// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/udp"
)

const canShare = true

var (
	errClosed = errors.New("share: member is closed")
	errLost   = errors.New("share: the application has closed the descriptors of this process")
)

// role is what a member does towards the others.
type role uint8

const (
	// seeking: there is no keeper that we know of. Entered at the start and when
	// the connection to the keeper ends; requests wait. Left by becoming keeper
	// or connecting to one.
	seeking role = iota
	// following: connected to the keeper. Left when the connection ends.
	following
	// keeping: we are the keeper. Left by Close alone.
	keeping
	// left: Close was called.
	left
)

func (r role) String() string { return [...]string{"seeking", "following", "keeping", "left"}[r] }

// member is a process that shares. Lock order: mu is innermost but for the
// locks of wills; no lock is held while a link is written to.
type member struct {
	// immutable after join
	opt   Options
	paths paths
	lock  lockFile
	watch *watch // of links, and of who connects to us
	slot  int
	wills willFile
	gone  sync.WaitGroup // every goroutine

	passMu sync.Mutex // leaf
	pass   *Numbers   // guarded by passMu: of Pass; nil is everything
	read   []*group   // guarded by passMu: those whose socket was asked for

	mu     sync.Mutex
	change sync.Cond             // guarded by mu: role changed
	role   role                  // guarded by mu
	link   *link                 // guarded by mu; set while following, and while rejoining so that Close can end it
	keeper *keeper               // guarded by mu; set while keeping
	groups map[netip.Addr]*group // guarded by mu: by address without zone
	keys   map[string]bool       // guarded by mu: what we listen for
	calls  map[uint64]call       // guarded by mu: requests to be answered on link
	lastID uint64                // guarded by mu

	executor time.Time // guarded by mu: when this member last started one
	alone    bool      // guarded by mu: none can be started
}

func (m *member) Slot() int { return m.slot }

// QPNRange is all of the slot's numbers: slot 0, which has QP0 and QP1, is
// nobody's. The multicast number is steered to slot 0.
func (m *member) QPNRange() (lo, hi ib.QPN) {
	lo, next := ib.QPN(m.slot)<<slotShift, ib.QPN(m.slot+1)<<slotShift
	return lo, min(next-1, ib.QPMulticast-1)
}

func (m *member) Socket(addr netip.Addr) (*udp.Socket, error) {
	addr = addr.Unmap()
	key := addr.WithZone("")
	m.mu.Lock()
	g := m.groups[key]
	m.mu.Unlock()
	if g == nil {
		a, err := m.call(frame{Kind: kindSocket, Addr: addr})
		if err != nil {
			return nil, err
		}
		if a.Err != "" {
			if a.Errno != 0 {
				return nil, &PortError{Addr: addr, Err: a.Errno}
			}
			return nil, &PortError{Addr: addr, Err: errors.New(a.Err)}
		}
		m.mu.Lock()
		g = m.groups[key]
		m.mu.Unlock()
		if g == nil {
			return nil, &PortError{Addr: addr, Err: errTooManyFiles}
		}
	}
	m.reading(g)
	return g.sockets[m.slot], nil
}

// reading has a group's socket take what is for us, from the first time on that it is
// asked for.
func (m *member) reading(g *group) {
	m.passMu.Lock()
	defer m.passMu.Unlock()
	if !slices.Contains(m.read, g) && m.lock.intact() {
		m.read = append(m.read, g)
		g.pass(m.slot, m.pass)
	}
}

func (m *member) Dropped() (n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.lock.intact() {
		return 0
	}
	if m.role == keeping {
		n = m.keeper.lost.Load()
	}
	for _, g := range m.groups {
		n += g.sockets[m.slot].Counters().KernelDropped
		if m.role == keeping {
			n += g.sockets[0].Counters().KernelDropped
		}
	}
	return n
}

func (m *member) Pass(n *Numbers) {
	m.passMu.Lock()
	defer m.passMu.Unlock()
	all := *n
	m.pass = &all
	if !m.lock.intact() { // what has our numbers by now is the application's
		return
	}
	for _, g := range m.read {
		g.pass(m.slot, m.pass)
	}
}

func (m *member) Listen(key string) error {
	a, err := m.call(frame{Kind: kindListen, Keys: []string{key}})
	if err != nil {
		return err
	}
	if a.Errno == syscall.EADDRINUSE {
		return keyError(key)
	}
	return nil
}

func (m *member) Unlisten(key string) {
	m.mu.Lock()
	mine := m.keys[key]
	delete(m.keys, key)
	m.mu.Unlock()
	if mine {
		m.call(frame{Kind: kindUnlisten, Keys: []string{key}})
	}
}

func (m *member) SetWill(id uint64, w Will) error {
	err := m.wills.set(id, w)
	if err == nil {
		m.seeExecutor()
	}
	return err
}

func (m *member) ClearWill(id uint64) { m.wills.clear(id) }

// call is a request on its way.
type call struct {
	frame
	answer chan frame // closed if the keeper dies
}

// answeredLocked takes the answer to f before anything else happens: the keeper
// may leave next, and what we listen for then is what the next one is told.
func (m *member) answeredLocked(f, a frame) {
	if f.Kind == kindListen && a.Err == "" {
		m.keys[f.Keys[0]] = true
	}
}

// call has the keeper, whoever it is, do what f asks. If the keeper dies before
// it answers, the next one is asked.
func (m *member) call(f frame) (frame, error) {
	m.mu.Lock()
	for {
		switch m.role {
		case seeking:
			m.change.Wait()
			continue
		case left:
			m.mu.Unlock()
			return frame{}, errClosed
		case keeping:
			k := m.keeper
			m.mu.Unlock()
			a, err := k.request(m.slot, f)
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.answeredLocked(f, a)
			}
			return a, err
		}
		l, answer := m.link, make(chan frame, 1)
		m.lastID++
		f.ID = m.lastID
		m.calls[f.ID] = call{f, answer}
		m.mu.Unlock()
		l.send(f, nil) // a failure ends the link, and with it the wait
		if a, ok := <-answer; ok {
			return a, nil
		}
		m.mu.Lock()
	}
}

// setRole makes the transition and tells who waits for it. m.mu is held.
func (m *member) setRole(r role, l *link, k *keeper) {
	ok := map[role][]role{seeking: {following, keeping, left}, following: {seeking, left}, keeping: {left}}
	if !slices.Contains(ok[m.role], r) {
		panic(fmt.Sprintf("share: %v to %v", m.role, r))
	}
	m.role, m.link, m.keeper = r, l, k
	for id, c := range m.calls {
		close(c.answer)
		delete(m.calls, id)
	}
	m.change.Broadcast()
}

// addGroup keeps a group that was received or made, unless it is known.
func (m *member) addGroup(g *group) {
	key := g.addr.WithZone("")
	m.mu.Lock()
	known := m.groups[key] != nil
	m.mu.Unlock()
	if known {
		g.close()
		return
	}
	g.own(m.slot, m.opt.Socket.BufferBytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[key] != nil || m.role == left {
		g.close()
		return
	}
	m.groups[key] = g
}

// follow serves a connection to the keeper until it ends.
func (m *member) follow(l *link) {
	for _, f := range l.early {
		m.take(f)
	}
	l.early = nil
	for {
		f, g, err := l.receive()
		if err == errTooManyFiles {
			continue // a group we do without; Socket says so if it is asked for
		}
		if err != nil {
			l.close()
			return
		}
		switch f.Kind {
		case kindGroup:
			m.addGroup(g)
		case kindMAD:
			m.take(f)
		case kindAnswer:
			m.mu.Lock()
			if c, ok := m.calls[f.ID]; ok {
				delete(m.calls, f.ID)
				m.answeredLocked(c.frame, f)
				c.answer <- f
			}
			m.mu.Unlock()
		}
	}
}

// run is the member's goroutine while it follows: it serves the connection and,
// when that ends, finds the next keeper or becomes it.
func (m *member) run(l *link) {
	defer m.gone.Done()
	for l != nil {
		m.follow(l)
		m.mu.Lock()
		if m.role == left {
			m.mu.Unlock()
			return
		}
		m.setRole(seeking, nil, nil)
		m.mu.Unlock()
		l = m.seek()
		m.mu.Lock()
		over := m.role == left
		m.mu.Unlock()
		if !over && m.opt.OnKeeper != nil {
			m.opt.OnKeeper()
		}
	}
}

// seek finds a keeper to follow, or becomes keeper or finds the member closed,
// and returns nil.
func (m *member) seek() *link {
	for p := (pause{}); ; p.wait() {
		if m.over() {
			return nil
		}
		if m.lock.try(keeperByte) {
			if err := m.becomeKeeper(); err == nil {
				return nil
			}
			m.lock.unlock(keeperByte)
			continue
		}
		if l := m.rejoin(); l != nil {
			return l
		}
	}
}

// over reports whether the member has left. It leaves by itself if it has
// nothing any more that it could come back with.
func (m *member) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role != left && !m.lock.intact() {
		m.setRole(left, nil, nil)
	}
	return m.role == left
}

// rejoin connects to a keeper with the descriptors and listeners we have.
func (m *member) rejoin() *link {
	l, err := dial(m.watch, m.paths.socket)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	groups := slices.Collect(maps.Values(m.groups))
	keys := slices.Collect(maps.Keys(m.keys))
	m.link = l
	over := m.role == left
	m.mu.Unlock()
	if over {
		l.close()
		return nil
	}
	// A group may have been made by the keeper that died and be known to few.
	for _, g := range groups {
		if l.send(frame{Kind: kindGroup, Addr: g.addr}, g) != nil {
			return nil
		}
	}
	if err := m.claim(l, keys); err != nil && err != errTooManyFiles {
		l.close()
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role == left {
		l.close()
		return nil
	}
	m.setRole(following, l, nil)
	return l
}

// take hands a management datagram on.
func (m *member) take(f frame) {
	m.opt.OnMAD(MAD{Src: f.Src, Dst: f.Addr, TOS: f.TOS, Payload: f.Data})
}

// claim tells the keeper our slot and takes what it sends up to the welcome. It
// returns errTooManyFiles if it was welcomed but could not take a group. What
// waited for us at the keeper may come before the welcome, and is kept for follow.
func (m *member) claim(l *link, keys []string) error {
	if err := l.send(frame{Kind: kindClaim, Slot: m.slot, Keys: keys}, nil); err != nil {
		return err
	}
	l.deadline = time.Now().Add(joinPatience)
	defer func() { l.deadline = time.Time{} }()
	var refused error
	for {
		f, g, err := l.receive()
		if err == errTooManyFiles {
			refused = err
			continue
		}
		if err != nil {
			return err
		}
		switch f.Kind {
		case kindGroup:
			m.addGroup(g)
		case kindMAD:
			l.early = append(l.early, f)
		case kindWelcome:
			return refused
		}
	}
}

// Close leaves in order.
func (m *member) Close() error {
	m.mu.Lock()
	if m.role == left {
		m.mu.Unlock()
		return errClosed
	}
	l, k := m.link, m.keeper
	m.setRole(left, nil, nil)
	if !m.lock.intact() { // what has our numbers by now is the application's
		m.mu.Unlock()
		return errLost
	}
	m.mu.Unlock()
	m.wills.withdraw()
	if l != nil {
		l.send(frame{Kind: kindBye}, nil)
		l.close()
	}
	if k != nil {
		k.close()
	}
	m.gone.Wait()
	m.watch.close()
	if k != nil {
		k.poller.Close() // nothing wakes it any more
	}
	for _, g := range m.groups {
		g.close()
	}
	// Last: whoever gets our slot or byte 0 must find our descriptors gone.
	return m.lock.close()
}

// pause spaces attempts: the first ones close together, because a hand-over
// takes a fraction of a millisecond.
type pause struct{ next time.Duration }

const pauseMax = 20 * time.Millisecond

// wait blocks the thread: a timer would start the Go runtime's poller, see
// openFile.
func (p *pause) wait() {
	p.next = min(max(2*p.next, 100*time.Microsecond), pauseMax)
	t := unix.NsecToTimespec(int64(p.next))
	unix.Nanosleep(&t, nil) // a signal may end it
}

// preferredSlot spreads processes over the slots, so that the queue pair numbers
// of one that died are not soon another's.
func preferredSlot() int { return 1 + os.Getpid()%(Slots-1) }
