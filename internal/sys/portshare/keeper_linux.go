// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// reapPatience bounds the wait for the lock of a member whose connection ended:
// the kernel closes a dead process's files one after the other.
const reapPatience = 2 * time.Second

// arrivalPatience bounds the wait for descriptors under way to a keeper.
const arrivalPatience = 100 * time.Millisecond

// keeper is the role of the member that holds byte 0.
type keeper struct {
	m        *member       // immutable
	ln       *socket       // immutable
	poller   *udp.Poller   // immutable: slot 0 of every group
	create   chan struct{} // immutable: a semaphore of one; groups are made one at a time
	quiet    chan struct{} // closed when no datagram is passed on any more
	late     []lateMAD     // of the goroutine that passes datagrams on
	spare    []lateMAD     // of the same: where late grows next
	asked    monotime.Time // of the same: when awaited was, last
	expected bool          // and what it said
	here     []int         // of the same: which of a train are for this member
	to       []*link       // of the same: to whom one of them goes
	behind   []*link       // of the same: those with a backlog
	lost     atomic.Uint64 // datagrams for members whose backlog was full

	// guarded by m.mu
	peers     map[int]*link  // members connected, by slot
	joined    time.Time      // when the last of them came
	accepted  map[*link]bool // every connection
	listeners map[string]int // slot of the member that listens for a key
	polled    map[netip.Addr]*group
	reaping   map[int]bool // slots whose owner's death is being looked into
}

// becomeKeeper takes the role; the caller holds byte 0.
func (m *member) becomeKeeper() error {
	ln, err := listen(m.watch, m.paths.socket)
	if err != nil {
		return fmt.Errorf("share: keeper's socket: %w", err)
	}
	poller, err := udp.NewPoller()
	if err != nil {
		m.unlisten(ln)
		return fmt.Errorf("share: %w", err)
	}
	k := &keeper{
		m: m, ln: ln, poller: poller, create: make(chan struct{}, 1), quiet: make(chan struct{}),
		peers: map[int]*link{}, accepted: map[*link]bool{}, listeners: map[string]int{}, polled: map[netip.Addr]*group{}, reaping: map[int]bool{},
	}
	m.mu.Lock()
	if m.role == left {
		m.mu.Unlock()
		m.unlisten(ln)
		poller.Close()
		return errClosed
	}
	for key := range m.keys {
		k.listeners[key] = m.slot
	}
	for _, g := range m.groups {
		k.poll(g)
	}
	m.setRole(keeping, nil, k)
	m.gone.Add(2)
	m.mu.Unlock()
	go k.accept()
	go k.serveMADs()
	for s := 1; s < Slots; s++ { // who died while there was no keeper
		if _, err := os.Stat(m.paths.willFile(s)); err == nil && s != m.slot {
			k.reap(s)
		}
	}
	return nil
}

// listen makes the socket that joiners connect to.
func listen(w *watch, path string) (*socket, error) {
	os.Remove(path) // a dead keeper's
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	return w.add(fd)
}

// unlisten closes it, its name first: there is no other keeper yet.
func (m *member) unlisten(ln *socket) {
	os.Remove(m.paths.socket)
	ln.close()
}

// close ends the role; the caller waits for the goroutines.
func (k *keeper) close() {
	k.m.unlisten(k.ln)
	k.create <- struct{}{} // a group that is being made reaches every member or none
	defer func() { <-k.create }()
	k.poller.Wake()
	<-k.quiet // what has been read reaches its member; the rest is the next keeper's
	k.m.mu.Lock()
	links := slices.Collect(maps.Keys(k.accepted))
	k.m.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

func (k *keeper) accept() {
	defer k.m.gone.Done()
	for {
		var fd int
		err := k.ln.await(time.Time{}, func(ln int) (err error) {
			fd, _, err = unix.Accept4(ln, unix.SOCK_CLOEXEC)
			return err
		})
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EBADF) {
				return
			}
			p := pause{next: pauseMax} // out of descriptors
			p.wait()
			continue
		}
		l, err := newLink(k.m.watch, fd)
		if err != nil {
			continue
		}
		l.room = k.poller.Wake
		k.m.mu.Lock()
		if k.m.role == left {
			k.m.mu.Unlock()
			l.close()
			continue
		}
		k.accepted[l] = true
		k.m.gone.Add(1)
		k.m.mu.Unlock()
		go k.serve(l)
	}
}

// serve reads what one member says until its connection ends.
func (k *keeper) serve(l *link) {
	defer k.m.gone.Done()
	slot := 0
	for {
		f, g, err := l.receive()
		if err == errTooManyFiles {
			continue
		}
		if err != nil || f.Kind == kindBye {
			break
		}
		switch {
		case f.Kind == kindGroup:
			k.addGroup(g)
		case f.Kind == kindClaim && slot == 0 && f.Slot > 0 && f.Slot < Slots:
			slot = f.Slot
			k.admit(l, f)
		case slot != 0:
			a, err := k.request(slot, f)
			if err != nil {
				continue // we are leaving: the next keeper answers
			}
			if f.Kind == kindSocket && a.Err == "" {
				k.sendGroup(l, f.Addr)
			}
			a.Kind, a.ID = kindAnswer, f.ID
			l.send(a, nil)
		}
	}
	l.close()
	k.poller.Wake() // to forget its backlog
	k.m.mu.Lock()
	delete(k.accepted, l)
	mine := k.peers[slot] == l
	if mine {
		delete(k.peers, slot)
		k.unlistenAll(slot)
	}
	k.m.mu.Unlock()
	if mine {
		k.reap(slot)
	}
}

// admit enters a member and sends it every group.
func (k *keeper) admit(l *link, f frame) {
	m := k.m
	m.mu.Lock()
	k.unlistenAll(f.Slot) // a dead predecessor's
	for _, key := range f.Keys {
		if _, taken := k.listeners[key]; !taken {
			k.listeners[key] = f.Slot
		}
	}
	k.peers[f.Slot], k.joined = l, time.Now()
	groups := slices.Collect(maps.Values(m.groups))
	m.mu.Unlock()
	for _, g := range groups {
		l.send(frame{Kind: kindGroup, Addr: g.addr}, g)
	}
	l.send(frame{Kind: kindWelcome}, nil)
}

// unlistenAll forgets what a slot's owner listens for. m.mu is held.
func (k *keeper) unlistenAll(slot int) {
	maps.DeleteFunc(k.listeners, func(_ string, s int) bool { return s == slot })
}

// request does what the owner of slot asks and returns the answer. The error is
// errClosed if this keeper cannot answer any more.
func (k *keeper) request(slot int, f frame) (frame, error) {
	switch f.Kind {
	case kindSocket:
		err := k.ensureGroup(f.Addr)
		if err == errClosed {
			return frame{}, err
		}
		return failure(err), nil
	case kindListen, kindUnlisten:
		if len(f.Keys) != 1 {
			return failure(syscall.EINVAL), nil
		}
		k.m.mu.Lock()
		defer k.m.mu.Unlock()
		key := f.Keys[0]
		owner, taken := k.listeners[key]
		switch {
		case f.Kind == kindListen && k.takenLocked(key):
			return failure(syscall.EADDRINUSE), nil
		case f.Kind == kindListen:
			k.listeners[key] = slot
		case taken && owner == slot:
			delete(k.listeners, key)
		}
		return frame{}, nil
	}
	return failure(syscall.ENOSYS), nil
}

// takenLocked reports whether somebody listens for a key or one that overlaps.
func (k *keeper) takenLocked(key string) bool {
	for other := range k.listeners {
		if k.m.opt.overlap(key, other) {
			return true
		}
	}
	return false
}

// failure puts an error into an answer.
func failure(err error) frame {
	if err == nil {
		return frame{}
	}
	f := frame{Err: err.Error()}
	if pe := (*PortError)(nil); errors.As(err, &pe) {
		f.Err = pe.Err.Error()
	}
	errors.As(err, &f.Errno)
	return f
}

// ensureGroup makes the group of an address if there is none.
func (k *keeper) ensureGroup(addr netip.Addr) error {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		awaited := k.awaited() // asked first: who holds the port may be gone after
		err := k.makeGroup(addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		// A group may be ours and not known here yet: a member that has not
		// connected again has it, or one that left had sent it to us before.
		grace := arrivalPatience
		if awaited {
			grace = reapPatience
		}
		if time.Since(start) > grace {
			return err
		}
	}
}

// makeGroup makes the group of an address unless there is one, and gives it to
// every member before anybody learns that it exists. It waits for no member.
func (k *keeper) makeGroup(addr netip.Addr) error {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	k.m.mu.Lock()
	known, over := k.m.groups[addr.WithZone("")] != nil, k.m.role == left
	k.m.mu.Unlock()
	if known {
		return nil
	}
	if over {
		return errClosed
	}
	g, err := newGroup(addr, &k.m.opt)
	if err != nil {
		return err
	}
	k.addGroup(g)
	k.m.mu.Lock()
	g, peers, over := k.m.groups[addr.WithZone("")], slices.Collect(maps.Values(k.peers)), k.m.role == left
	k.m.mu.Unlock()
	if over {
		return errClosed
	}
	for _, l := range peers {
		if l.offer(frame{Kind: kindGroup, Addr: g.addr}, g) != nil {
			l.close() // the member gets all groups when it connects again
		}
	}
	return nil
}

// awaited reports whether there are members that have not connected yet.
func (k *keeper) awaited() bool {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	for s := 1; s < Slots; s++ {
		if s != k.m.slot && k.peers[s] == nil && k.m.lock.held(s, 1) {
			return true
		}
	}
	return false
}

func (k *keeper) sendGroup(l *link, addr netip.Addr) {
	k.m.mu.Lock()
	g := k.m.groups[addr.WithZone("")]
	k.m.mu.Unlock()
	if g != nil {
		l.send(frame{Kind: kindGroup, Addr: g.addr}, g)
	}
}

// addGroup enters a group made here or brought by a member.
func (k *keeper) addGroup(g *group) {
	key := g.addr.WithZone("")
	k.m.addGroup(g)
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if g := k.m.groups[key]; g != nil {
		k.poll(g)
	}
}
