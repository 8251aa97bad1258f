// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

const canShare = true

var (
	errClosed = errors.New("portshare: member is closed")
	errLost   = errors.New("portshare: the application has closed the descriptors of this process")
)

// role is a member's part towards the keeper.
type role uint8

const (
	// seeking: there is no keeper that we know of. Entered at the start and when
	// the connection to the keeper ends; requests wait. Left by connecting to one.
	seeking role = iota
	// following: connected to the keeper. Left when the connection ends.
	following
	// left: Close was called.
	left
)

func (r role) String() string { return [...]string{"seeking", "following", "left"}[r] }

// member is a process that shares. Lock order: openMu, mu; passMu is a leaf, and so are the
// locks of wills; no lock but openMu is held while a link is written to.
type member struct {
	// immutable after join
	opt   Options
	paths paths
	lock  lockFile // the slot's byte is locked in it
	watch *watch   // of links
	slot  int
	wills willFile
	gone  sync.WaitGroup // every goroutine

	vault  int // of the goroutine that joins, and then of the one that follows; -1 before
	starts int // of the same: keepers started since the last one answered

	openMu sync.Mutex // one socket is asked for at a time

	sendMu  sync.Mutex // held while a datagram is sent by the keeper
	sendBuf []byte     // guarded by sendMu

	readMu sync.Mutex // held while frames of link are read and handed on

	passMu sync.Mutex    // leaf
	pass   *Numbers      // guarded by passMu: of Pass; nil is everything
	read   []*udp.Socket // guarded by passMu: those that were asked for

	mu     sync.Mutex
	change sync.Cond // guarded by mu: role changed
	role   role      // guarded by mu
	// guarded by mu; set while following, and while rejoining so that Close can end it
	link    *link
	host    *keeper                    // guarded by mu; set where this process is the keeper
	sockets map[netip.Addr]*udp.Socket // guarded by mu: by address without zone
	parts   memberParts                // guarded by mu
	keys    map[string]bool            // guarded by mu: those that we listen for
	calls   map[uint64]call            // guarded by mu: requests to be answered on link
	lastID  uint64                     // guarded by mu
	dropped uint64                     // guarded by mu: the keeper's last answer to kindDropped
	watched []int                      // guarded by mu: of Watch, the first to be woken first
}

func (m *member) Slot() int { return m.slot }

// QPNRange is all of the slot's numbers but QP0, QP1 and the multicast number.
func (m *member) QPNRange() (lo, hi ib.QPN) {
	lo, next := ib.QPN(m.slot)<<SlotShift, ib.QPN(m.slot+1)<<SlotShift
	return max(lo, ib.QP1+1), min(next-1, ib.QPMulticast-1)
}

func (m *member) Name() string { return m.paths.name(m.slot) }

func (m *member) Meeting(slot int) string { return m.paths.meeting(slot) }

func (m *member) Socket(addr netip.Addr) (*udp.Socket, error) {
	addr = addr.Unmap()
	m.openMu.Lock()
	defer m.openMu.Unlock()
	m.mu.Lock()
	s := m.sockets[addr.WithZone("")]
	m.mu.Unlock()
	if s == nil {
		var err error
		if s, err = m.open(addr); err != nil {
			return nil, err
		}
	}
	return s, m.reading(s)
}

// given asks the keeper for a socket.
func (m *member) given(f frame) (*udp.Socket, error) {
	a, err := m.call(f)
	if err == nil {
		err = a.refused(f.Addr)
	}
	if err == nil && len(a.fds) != 1 {
		err = &PortError{Addr: f.Addr, Err: errTooManyFiles}
	}
	if err != nil {
		return nil, err
	}
	return udp.Adopt(a.fds[0])
}

// open has the keeper give us our socket of an address. m.openMu is held.
func (m *member) open(addr netip.Addr) (*udp.Socket, error) {
	s, err := m.given(frame{Kind: kindSocket, Addr: addr})
	if err != nil {
		return nil, err
	}
	own(s, m.opt.Socket.BufferBytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role == left {
		s.Close()
		return nil, errClosed
	}
	m.sockets[addr.WithZone("")] = s
	return s, nil
}

// refused returns the error in an answer about an address.
func (f *frame) refused(addr netip.Addr) error {
	switch {
	case f.Errno == syscall.EMFILE:
		return &PortError{Addr: addr, Err: &keeperError{f.Err, f.Errno}}
	case f.Errno != 0:
		return &PortError{Addr: addr, Err: f.Errno}
	case f.Err != "":
		return &PortError{Addr: addr, Err: errors.New(f.Err)}
	}
	return nil
}

// keeperError is an error in the keeper's words.
type keeperError struct {
	text  string
	errno syscall.Errno
}

func (e *keeperError) Error() string { return e.text }

// Unwrap returns nil where the keeper's error had no number: 0 would be one.
func (e *keeperError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

func (m *member) Receive(addr netip.Addr) error {
	addr = addr.Unmap()
	a, err := m.call(frame{Kind: kindReceive, Addr: addr})
	if err != nil {
		return err
	}
	return a.refused(addr)
}

func (m *member) Send(src netip.Addr, dst netip.AddrPort, datagram []byte) error {
	m.mu.Lock()
	l := m.link
	ok := m.role == following
	m.mu.Unlock()
	if !ok { // as good as lost: the keeper has gone, and the next one gets the repetition
		return nil
	}
	m.sendMu.Lock()
	defer m.sendMu.Unlock()
	m.sendBuf = appendSend(m.sendBuf[:0], src.Unmap(), dst, datagram)
	err := l.put(m.sendBuf, nil, unix.MSG_DONTWAIT)
	if err != nil && err != unix.EAGAIN {
		l.close()
	}
	return err
}

// reading makes a socket take our datagrams, from the first request on. It fails once the member
// has left: Close closes the socket, and the descriptor may be the application's then.
func (m *member) reading(s *udp.Socket) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role == left {
		return errClosed
	}
	m.passMu.Lock()
	defer m.passMu.Unlock()
	if !slices.Contains(m.read, s) && m.lock.intact() {
		m.read = append(m.read, s)
		pass(s, m.pass)
	}
	return nil
}

func (m *member) Dropped() (n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.lock.intact() {
		return 0
	}
	for _, s := range m.sockets {
		n += s.Counters().KernelDropped
	}
	for _, p := range m.parts {
		n += p.Counters().KernelDropped
	}
	return n
}

// askPatience bounds the wait for the count of a keeper that is stopped.
const askPatience = 100 * time.Millisecond

func (m *member) KeeperDropped() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		if c.Kind == kindDropped { // it has been slow to answer
			return m.dropped
		}
	}
	if m.role != following {
		return m.dropped
	}
	f, l, answer := frame{Kind: kindDropped}, m.link, make(chan frame, 1)
	m.enterCallLocked(&f, answer)
	m.mu.Unlock()
	err := l.offer(f)
	begun := time.Now()
	for p := (pause{}); err == nil && !settled(answer); p.wait() {
		if time.Since(begun) > askPatience {
			break
		}
	}
	m.mu.Lock()
	if err != nil {
		delete(m.calls, f.ID)
	}
	return m.dropped
}

// settled reports whether a request was answered, or its keeper is gone.
func settled(answer chan frame) bool {
	select {
	case <-answer:
		return true
	default:
		return false
	}
}

func (m *member) Pass(n *Numbers) {
	m.passMu.Lock()
	defer m.passMu.Unlock()
	all := *n
	m.pass = &all
	if !m.lock.intact() { // our numbers may be the application's by now
		return
	}
	for _, s := range m.read {
		pass(s, m.pass)
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

func (m *member) SetWill(id uint64, w Will) error { return m.wills.set(id, w) }

func (m *member) ClearWill(id uint64) { m.wills.clear(id) }

// call is a request on its way.
type call struct {
	frame
	answer chan frame // closed if the keeper dies
}

// answeredLocked takes the answer to f before anything else happens: the keeper may leave next, and
// then the next one is given the keys that we have.
func (m *member) answeredLocked(f, a frame) {
	switch {
	case a.Err != "":
	case f.Kind == kindListen:
		m.keys[f.Keys[0]] = true
	case f.Kind == kindDropped:
		m.dropped = a.Count
	}
}

// enterCallLocked gives a request its number and has its answer awaited.
func (m *member) enterCallLocked(f *frame, answer chan frame) {
	m.lastID++
	f.ID = m.lastID
	m.calls[f.ID] = call{*f, answer}
}

// call makes the current keeper do the work of f. If the keeper dies before it answers, the next
// one is asked.
func (m *member) call(f frame) (frame, error) { return m.callWith(f) }

// callWith is call with descriptors beside the request.
func (m *member) callWith(f frame, fds ...int) (frame, error) {
	m.mu.Lock()
	for {
		switch m.role {
		case seeking:
			m.change.Wait()
			continue
		case left:
			m.mu.Unlock()
			return frame{}, errClosed
		}
		l, answer := m.link, make(chan frame, 1)
		m.enterCallLocked(&f, answer)
		m.mu.Unlock()
		l.send(f, fds...) // a failure ends the link, and with it the wait
		if a, ok := <-answer; ok {
			return a, nil
		}
		m.mu.Lock()
	}
}

// setRole makes the transition and wakes the threads that wait for it. m.mu is held.
func (m *member) setRole(r role, l *link) {
	ok := map[role][]role{seeking: {following, left}, following: {seeking, left}}
	if !slices.Contains(ok[m.role], r) {
		panic(fmt.Sprintf("portshare: %v to %v", m.role, r))
	}
	m.role, m.link = r, l
	for id, c := range m.calls {
		close(c.answer)
		delete(m.calls, id)
	}
	m.change.Broadcast()
}

// run is the member's goroutine: it serves the connection and,
// when that ends, finds the next keeper.
func (m *member) run(l *link) {
	defer m.gone.Done()
	for l != nil {
		m.follow(l)
		m.mu.Lock()
		if m.role == left {
			m.mu.Unlock()
			return
		}
		m.setRole(seeking, nil)
		m.mu.Unlock()
		l = m.seek()
		if l != nil && m.opt.OnKeeper != nil {
			m.opt.OnKeeper()
		}
	}
}

// seek finds a keeper to follow, or finds the member closed and returns nil.
func (m *member) seek() *link {
	for p := (pause{}); ; p.wait() {
		if m.over() {
			return nil
		}
		if l, _ := m.reach(); l != nil && m.rejoin(l) { // an error may pass
			return l
		}
	}
}

// over reports whether the member has left. It leaves by itself if it has nothing any more that it
// could come back with. An application that closes all descriptors may not have come to the lock's
// yet. The next connection's would get a number of its own.
func (m *member) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role != left && (fdtrack.Lost() || !m.lock.intact()) {
		m.setRole(left, nil)
	}
	return m.role == left
}

// rejoin gives a keeper our slot and our keys, and the vault of the one before.
func (m *member) rejoin(l *link) bool {
	m.mu.Lock()
	keys, dropped := slices.Collect(maps.Keys(m.keys)), m.dropped
	parts := m.parts.steered()
	m.link = l
	over := m.role == left
	m.mu.Unlock()
	claim := frame{Kind: kindClaim, Slot: m.slot, Keys: keys, Count: dropped, Parts: parts}
	if over || l.send(claim, m.vault) != nil {
		l.close()
		return false
	}
	if _, err := m.welcome(l); err != nil && err != errTooManyFiles { // go on with these
		l.close()
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.role == left {
		l.close()
		return false
	}
	m.setRole(following, l)
	return true
}

// welcome takes the keeper's frames up to its welcome, and returns our slot. Datagrams may come
// before, and are kept for follow.
func (m *member) welcome(l *link) (slot int, err error) {
	l.deadline = time.Now().Add(joinPatience)
	defer func() { l.deadline = time.Time{} }()
	for {
		f, err := l.receive()
		if err != nil {
			return 0, err
		}
		switch f.Kind {
		case kindMAD:
			l.early = append(l.early, f)
		case kindAnswer:
			closeAll(f.fds)
			if f.Err == errNoSlot.Error() {
				return 0, errNoSlot
			}
			return 0, &keeperError{f.Err, f.Errno}
		case kindWelcome:
			m.starts = 0
			if len(f.fds) == 0 {
				return f.Slot, errTooManyFiles
			}
			m.dropVault()
			m.vault = f.fds[0]
			fdtrack.Add(m.vault)
			return f.Slot, nil
		}
	}
}

// dropVault gives up the end of a vault, if there is one.
func (m *member) dropVault() {
	if m.vault >= 0 {
		fdtrack.Close(m.vault)
		m.vault = -1
	}
}

// Close leaves in order.
func (m *member) Close() error {
	m.mu.Lock()
	if m.role == left {
		m.mu.Unlock()
		return errClosed
	}
	l := m.link
	m.setRole(left, nil)
	if !m.lock.intact() { // our numbers may be the application's by now
		m.mu.Unlock()
		return errLost
	}
	m.mu.Unlock()
	m.wills.withdraw()
	if l != nil {
		m.bye(l)
	}
	m.gone.Wait()
	m.readMu.Lock() // a thread may be in Read
	m.watch.close()
	m.readMu.Unlock()
	for _, s := range m.sockets {
		s.Close()
	}
	for _, p := range m.parts {
		p.Close()
	}
	m.dropVault()
	err := m.lock.close() // after them: the slot's next owner must find our descriptors gone
	if m.host != nil {
		m.host.close(false)
	} else {
		m.paths.tidy()
	}
	return err
}

// byePatience bounds the wait for a keeper that is stopped.
const byePatience = 200 * time.Millisecond

// bye leaves the keeper, which ends the connection when it has forgotten us.
func (m *member) bye(l *link) {
	l.send(frame{Kind: kindBye})
	begun := time.Now()
	for p := (pause{}); !l.ended() && time.Since(begun) < byePatience; p.wait() {
	}
	l.close()
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
