// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// keeper serves all members of a network namespace and directory. Its process is Keep's, or
// that of a member that has found no command to execute.
type keeper struct {
	// immutable after newKeeper
	rules  MADRules
	paths  paths
	lock   lockFile
	watch  *watch
	ln     *socket
	poller *udp.Poller    // the keeper's socket of every group
	create chan struct{}  // a semaphore of one: groups are made and extended one at a time
	quiet  chan struct{}  // closed when no datagram is passed on any more
	gone   sync.WaitGroup // every goroutine
	events chan struct{}  // a token when a member has come or gone

	reserve int // of the goroutine that accepts: a descriptor for turnAway; -1 is none

	late   []lateMAD        // of the goroutine that passes datagrams on
	spare  []lateMAD        // of the same: where late grows next
	to     []*link          // of the same: the receivers of one of them
	behind []*link          // of the same: those with a backlog
	answer []byte           // of the same
	out    [1]udp.Datagrams // of the same
	vec    [1][]byte        // of the same
	lost   atomic.Uint64    // datagrams that had no room, those of earlier keepers among them

	mu        sync.Mutex
	over      bool                   // guarded by mu: close was called
	unused    bool                   // guarded by mu: the groups are to be given up
	vault     *vault                 // guarded by mu, and replaced under create
	known     map[uint64]bool        // guarded by mu: earlier keepers' vaults and boxes, by inode
	groups    map[netip.Addr]*group  // guarded by mu, changed under create too: by zoneless address
	peers     map[int]*link          // guarded by mu: members connected, by slot
	joined    time.Time              // guarded by mu: when the last of them came
	accepted  map[*link]bool         // guarded by mu: every connection
	listeners map[string]int         // guarded by mu: slot of the member that listens for a key
	lately    map[string]time.Time   // guarded by mu: since when nobody listens for a key
	reaping   map[int]bool           // guarded by mu: slots whose owner's death is awaited
	cursor    int                    // guarded by mu: where the search for a free slot goes on
	span      int                    // guarded by mu: slots below are given out
	polled    map[uint64]*udp.Socket // guarded by mu: the keeper's sockets, by descriptor

	attach Attach             // immutable; nil: no frames
	frames map[int]*framePool // guarded by create: by index of the interface
}

var errNoSlot = fmt.Errorf("portshare: all %d slots are taken, one by each process of this user "+
	"that uses devices: end some (`verbena stat` shows them)", Slots)

// errKept says that there is a keeper.
var errKept = errors.New("portshare: another process is the keeper")

// firstSpan is the number of slots that are given out in turn at first. A slot that was used at
// an address costs a socket there for good, so the number doubles only when all are owned. It is
// more than one so that the queue pair numbers of a process that died are not soon another's.
const firstSpan = 15

// newKeeper takes the role of keeper. The error is errKept if another process has it.
func newKeeper(ps paths, d MADRules, attach Attach) (k *keeper, err error) {
	lock, err := takeRole(ps)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.close()
		}
	}()
	v, err := newVault()
	if err != nil {
		return nil, fmt.Errorf("portshare: %w", err)
	}
	poller, err := udp.NewPoller()
	if err != nil {
		v.close()
		return nil, fmt.Errorf("portshare: %w", err)
	}
	w, err := newWatch()
	if err != nil {
		v.close()
		poller.Close()
		return nil, fmt.Errorf("portshare: %w", err)
	}
	spare, err := reserve()
	if err != nil {
		v.close()
		poller.Close()
		w.close()
		return nil, fmt.Errorf("portshare: %w", err)
	}
	ln, err := listen(w, ps.socket)
	if err != nil {
		fdtrack.Close(spare)
		v.close()
		poller.Close()
		w.close()
		return nil, fmt.Errorf("portshare: keeper's socket: %w", err)
	}
	k = &keeper{
		rules: d, paths: ps, lock: lock, watch: w, reserve: spare, ln: ln, poller: poller,
		create: make(chan struct{}, 1), quiet: make(chan struct{}), events: make(chan struct{}, 1),
		vault: v, known: map[uint64]bool{}, groups: map[netip.Addr]*group{},
		peers: map[int]*link{}, accepted: map[*link]bool{}, listeners: map[string]int{},
		lately: map[string]time.Time{}, reaping: map[int]bool{}, span: firstSpan,
		polled: map[uint64]*udp.Socket{}, attach: attach, frames: map[int]*framePool{},
	}
	k.cursor = os.Getpid() % firstSpan
	for slot := range Slots { // whose members have not found us yet
		if lock.owned(slot) {
			k.span = max(k.span, spanOf(slot))
			k.reap(slot)
		}
	}
	for _, slot := range ps.left() { // members that died while there was no keeper
		k.reap(slot)
	}
	k.gone.Add(2)
	go k.accept()
	go k.serveMADs()
	lock.begun()
	return k, nil
}

// takeRole locks the keeper's byte of the file that members open.
func takeRole(ps paths) (lockFile, error) {
	for {
		lock, err := openLock(ps.lock)
		if err != nil {
			return lockFile{}, err
		}
		if !lock.try(keeperByte) {
			lock.close()
			return lockFile{}, errKept
		}
		if lock.at(ps.lock) {
			return lock, nil
		}
		lock.close() // the last keeper has removed it meanwhile
	}
}

// tidy removes the lock file where there is neither keeper nor member: the last keeper was a
// member that has left before the last one.
func (p paths) tidy() {
	lock, err := takeRole(p)
	if err != nil {
		return // there is a keeper, which does it in the end
	}
	if !lock.anyOwned() {
		os.Remove(p.socket) // it may be a killed one's
		os.Remove(p.lock)
	}
	lock.close()
}

// spanOf returns how many slots are given out where one is: as firstSpan, a power of two less
// one, so that with the keeper's socket there are as many as a power of two.
func spanOf(slot int) int {
	n := firstSpan
	for n <= slot {
		n = min(2*n+1, Slots)
	}
	return n
}

// listen makes the socket that members connect to.
func listen(w *watch, path string) (*socket, error) {
	os.Remove(path) // a dead keeper's
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		0)
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

// close ends the role, unless onlyIdle is set and somebody is there. Its files go with it if
// no other process is left.
func (k *keeper) close(onlyIdle bool) (done bool) {
	k.create <- struct{}{} // a group that is being made is in the vault
	k.mu.Lock()
	if onlyIdle && !k.idleLocked() {
		k.mu.Unlock()
		<-k.create
		return false
	}
	k.over = true
	k.mu.Unlock()
	<-k.create
	ours := k.lock.at(k.paths.lock)
	if ours {
		os.Remove(k.paths.socket) // first: there is no other keeper yet
	}
	k.ln.close()
	k.poller.Wake()
	<-k.quiet // datagrams read before reach their member; the rest is the next keeper's
	k.mu.Lock()
	links := slices.Collect(maps.Keys(k.accepted))
	k.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	k.gone.Wait()
	if k.reserve >= 0 {
		fdtrack.Close(k.reserve)
	}
	k.watch.close()
	k.poller.Close()
	for _, g := range k.groups {
		g.close()
	}
	for _, p := range k.frames {
		p.close()
	}
	k.vault.close()
	if ours && !k.lock.anyOwned() {
		os.Remove(k.paths.lock)
	}
	k.lock.close()
	return true
}

// idleLocked reports whether no process uses the keeper, nor has ended a moment ago. k.mu
// is held.
func (k *keeper) idleLocked() bool {
	return len(k.accepted) == 0 && len(k.reaping) == 0 && !k.lock.anyOwned()
}

// changed has Keep look whether anybody is there, and groups that nobody uses be given up.
func (k *keeper) changed() {
	select {
	case k.events <- struct{}{}:
	default:
	}
	k.mu.Lock()
	k.unused = len(k.groups) > 0 && k.idleLocked()
	wake := k.unused
	k.mu.Unlock()
	if wake {
		k.poller.Wake()
	}
}

func (k *keeper) accept() {
	defer k.gone.Done()
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
			k.turnAway()
			continue
		}
		l, err := newLink(k.watch, fd)
		if err != nil {
			continue
		}
		l.room = k.poller.Wake
		k.mu.Lock()
		if k.over {
			k.mu.Unlock()
			l.close()
			continue
		}
		k.accepted[l] = true
		k.gone.Add(1)
		k.mu.Unlock()
		k.changed()
		go k.serve(l)
	}
}

// turnAway tells a process that there is no descriptor for its connection, which takes the
// one that is kept for that.
func (k *keeper) turnAway() {
	p := pause{next: pauseMax} // there may be a descriptor soon
	defer p.wait()
	a := failure(k.exhausted())
	a.Kind = kindAnswer
	b, err := json.Marshal(a)
	if err != nil || k.reserve < 0 {
		return
	}
	fdtrack.Close(k.reserve)
	k.reserve = -1
	k.ln.do(func(ln int) error {
		fd, _, err := unix.Accept4(ln, unix.SOCK_CLOEXEC)
		if err == nil {
			// A process that has gone needs no answer.
			unix.Sendmsg(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			unix.Close(fd)
		}
		return err
	})
	if fd, err := reserve(); err == nil {
		k.reserve = fd
	}
}

// reserve returns a descriptor of no use but to be closed.
func reserve() (fd int, err error) {
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(fd)
	return fd, nil
}

// serve reads one member's frames until its connection ends.
func (k *keeper) serve(l *link) {
	defer k.gone.Done()
	slot := -1
	for {
		f, err := l.receive()
		if err != nil || f.Kind == kindBye {
			break
		}
		switch {
		case slot < 0 && f.Kind == kindJoin:
			if slot = k.assign(l); slot < 0 {
				a := failure(errNoSlot)
				a.Kind = kindAnswer
				l.send(a)
			} else {
				k.welcome(l, slot)
			}
		case slot < 0 && f.Kind == kindClaim && f.Slot >= 0 && f.Slot < Slots:
			slot = f.Slot
			k.admit(l, f)
			k.welcome(l, slot)
		case slot >= 0 && f.Kind == kindSend:
			k.send(f)
		case slot >= 0:
			a, fds, err := k.request(slot, f)
			if err != nil {
				l.close() // the next keeper answers
				break
			}
			a.Kind, a.ID = kindAnswer, f.ID
			l.send(a, fds...)
		}
		closeAll(f.fds)
	}
	k.mu.Lock()
	delete(k.accepted, l)
	mine := slot >= 0 && k.peers[slot] == l
	if mine {
		delete(k.peers, slot)
		k.unlistenAll(slot)
		k.reapLocked(slot)
	}
	k.mu.Unlock()
	l.close()       // a member that leaves waits for that: its keys are free
	k.poller.Wake() // to forget its backlog
	k.changed()
}

// assign gives a new member a slot, -1 if there is none. It locks the slot itself.
func (k *keeper) assign(l *link) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.span = min(k.span, Slots); ; k.span = spanOf(k.span) {
		for i := range k.span {
			slot := (k.cursor + i) % k.span
			if k.peers[slot] != nil || k.reaping[slot] || k.lock.owned(slot) {
				continue
			}
			k.cursor = (slot + 1) % k.span
			k.enterLocked(slot, l)
			return slot
		}
		if k.span == Slots {
			return -1
		}
	}
}

// enterLocked notes a member. k.mu is held.
func (k *keeper) enterLocked(slot int, l *link) { k.peers[slot], k.joined = l, time.Now() }

// admit enters a member of a keeper that has gone, with its keys and the groups of that keeper. It
// continues that keeper's count of lost datagrams, as the member knows it.
func (k *keeper) admit(l *link, f frame) {
	if len(f.fds) == 1 {
		k.inherit(f.fds[0])
	}
	k.steerParts(f.Slot, f.Parts)
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.droppedLocked(); n < f.Count {
		k.lost.Add(f.Count - n)
	}
	k.unlistenAll(f.Slot)
	for _, key := range f.Keys {
		if _, taken := k.listeners[key]; !taken {
			k.listeners[key] = f.Slot
		}
	}
	k.span = max(k.span, spanOf(f.Slot))
	k.enterLocked(f.Slot, l)
}

func (k *keeper) welcome(l *link, slot int) {
	k.create <- struct{}{} // the vault is neither closed nor replaced while this is held
	defer func() { <-k.create }()
	l.send(frame{Kind: kindWelcome, Slot: slot}, k.vault.end)
}

// unlistenAll forgets the keys of a slot's owner. k.mu is held.
func (k *keeper) unlistenAll(slot int) {
	maps.DeleteFunc(k.listeners, func(_ string, s int) bool { return s == slot })
}

// request does the work that the owner of slot asks for, and returns the answer. The error is
// errOver if this keeper cannot answer any more.
func (k *keeper) request(slot int, f frame) (a frame, fds []int, err error) {
	switch f.Kind {
	case kindSocket:
		s, err := k.socketOf(slot, f.Addr)
		return give(s, err)
	case kindPart, kindSteer:
		s, err := k.partOf(slot, f.Part, f.Addr, f.Kind == kindSteer)
		return give(s, err)
	case kindReceive:
		_, err := k.socketOf(noSlot, f.Addr)
		return give(nil, err)
	case kindListen, kindUnlisten:
		if len(f.Keys) != 1 {
			return failure(syscall.EINVAL), nil, nil
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		key := f.Keys[0]
		owner, taken := k.listeners[key]
		switch {
		case f.Kind == kindListen && k.takenLocked(key):
			return failure(syscall.EADDRINUSE), nil, nil
		case f.Kind == kindListen:
			k.listeners[key] = slot
			delete(k.lately, key)
		case taken && owner == slot:
			delete(k.listeners, key)
			k.endedLocked(key)
		}
		return frame{}, nil, nil
	case kindFrames:
		s, err := k.framesOf(slot, Interface{Name: f.Name, Queues: int(f.Count)})
		switch {
		case err == errOver:
			return frame{}, nil, err
		case err != nil:
			return failure(err), nil, nil
		}
		return frame{Slot: s.Place, Name: f.Name}, append([]int{s.Memory}, s.Sockets...), nil
	case kindPort, kindUnport:
		return give(nil, k.steerPort(slot, f))
	case kindDropped:
		k.mu.Lock()
		defer k.mu.Unlock()
		return frame{Count: k.droppedLocked()}, nil, nil
	}
	return failure(syscall.ENOSYS), nil, nil
}

// give returns the answer of request that has a socket beside it, if there is one.
func give(s *udp.Socket, err error) (a frame, fds []int, over error) {
	switch {
	case err == errOver:
		return frame{}, nil, err
	case err != nil:
		return failure(err), nil, nil
	case s == nil:
		return frame{}, nil, nil
	}
	return frame{}, []int{s.FD()}, nil
}

// droppedLocked returns the number of Member.KeeperDropped. k.mu is held.
func (k *keeper) droppedLocked() uint64 {
	n := k.lost.Load()
	for _, g := range k.groups {
		n += g.mads.Counters().KernelDropped
	}
	return n
}

// send sends a datagram for a member that has no socket at the address.
func (k *keeper) send(f frame) {
	k.mu.Lock()
	g := k.groups[f.Addr.WithZone("")]
	k.mu.Unlock()
	if g != nil {
		// The peer repeats lost datagrams.
		g.mads.WriteBatch([]udp.Datagrams{{Dst: f.Src, Iov: [][]byte{f.Data}}})
	}
}

// takenLocked reports whether somebody listens for a key or one that overlaps.
func (k *keeper) takenLocked(key string) bool {
	for other := range k.listeners {
		if k.rules.overlap(key, other) {
			return true
		}
	}
	return false
}

// failure puts an error into an answer.
func failure(err error) frame {
	f := frame{Err: err.Error()}
	if pe := (*PortError)(nil); errors.As(err, &pe) {
		f.Err = pe.Err.Error()
	}
	errors.As(err, &f.Errno)
	return f
}
