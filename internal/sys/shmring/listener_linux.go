// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// Listener takes connections of other processes. Its descriptor becomes readable when Serve has
// something to do.
type Listener struct {
	// immutable after Listen
	path        string
	self        Identity
	event       int
	epoll       int
	fd          int // -1 in Listen
	onArrival   func(*In)
	onDeparture func(any)

	// spare gives its number to callers that are turned away, where the process has no other. It is
	// -1 after another thread has taken the number: Serve then tries again. Of the thread in Serve.
	spare int

	mu    sync.Mutex
	conns map[int32]any // guarded by mu: by descriptor, *In, *Out or caller; nil when closed
}

// caller is a connection that has not said hello yet.
type caller struct{}

// Bounds of a Listener.
const (
	maxCallers = 1024           // that nobody has accepted: as many processes share an address
	maxEvents  = 16             // handled by one Serve; others come with the next
	maxTurn    = 2 * maxCallers // accepted by one Serve; others came later, and are reported again
)

// Listen makes this process found at path, which is its alone: a dead process's name there is
// removed. event is the eventfd that wakes it, which others are given. From Serve, onArrival is
// called with each new ring to this process. onDeparture is called with each In, and each Out
// watched, whose other end has gone.
func Listen(path string, self Identity, event int, onArrival func(*In),
	onDeparture func(any)) (*Listener, error) {
	l := &Listener{path: path, self: self, event: event, fd: -1, spare: -1, epoll: -1,
		onArrival: onArrival, onDeparture: onDeparture, conns: map[int32]any{}}
	if err := l.open(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) open() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	fdtrack.Add(l.epoll)
	if err := l.openSpare(); err != nil {
		return err
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if l.fd, err = unix.Socket(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		l.fd = -1
		return os.NewSyscallError("socket", err)
	}
	fdtrack.Add(l.fd)
	if err := unix.Bind(l.fd, &unix.SockaddrUnix{Name: l.path}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(l.fd, maxCallers); err != nil {
		return os.NewSyscallError("listen", err)
	}
	return l.watch(l.fd, unix.EPOLLET) // accept takes all, or tries again with the next event
}

// openSpare makes the spare descriptor, if there is none.
func (l *Listener) openSpare() error {
	if l.spare >= 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(fd)
	l.spare = fd
	return nil
}

// turnAway ends the connections of the callers that were not accepted, where the process has no
// descriptor for them. A caller would wait for an answer. They get the spare descriptor's number in
// turns. If another thread takes that first, they wait until the next Serve.
func (l *Listener) turnAway() {
	if fdtrack.Check() {
		return
	}
	if l.spare >= 0 {
		closeFD(l.spare)
		l.spare = -1
	}
	for range maxTurn {
		fd, err := l.next()
		if err == unix.EAGAIN {
			_ = l.openSpare() // else the next Serve tries
			return
		}
		if err != nil {
			return
		}
		unix.Close(fd)
	}
}

func (l *Listener) watch(fd int, flags uint32) error {
	return os.NewSyscallError("epoll_ctl",
		unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd,
			&unix.EpollEvent{Events: unix.EPOLLIN | flags, Fd: int32(fd)}))
}

// FD is readable when Serve has something to do.
func (l *Listener) FD() int { return l.epoll }

// Watch makes Serve report the end of o's other end.
func (l *Listener) Watch(o *Out) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return os.ErrClosed
	}
	fd := o.descriptor()
	err := l.watch(fd, 0)
	if err == nil {
		l.conns[int32(fd)] = o
	}
	return err
}

// Serve answers processes that dial and reports those that have gone. It does not block. Calls come
// one at a time.
func (l *Listener) Serve() {
	var events [maxEvents]unix.EpollEvent
	if fdtrack.Lost() {
		return
	}
	n, err := unix.EpollWait(l.epoll, events[:], 0)
	if err != nil {
		return
	}
	calls := l.spare < 0 // some may be left
	for _, e := range events[:n] {
		if e.Fd == int32(l.fd) {
			calls = true
			continue
		}
		l.mu.Lock()
		c := l.conns[e.Fd]
		_, called := c.(caller)
		if o, ok := c.(*Out); ok && !o.departed() {
			c = nil
		}
		if c != nil && !called {
			l.forgetLocked(e.Fd)
		}
		l.mu.Unlock()
		if called {
			l.answer(int(e.Fd))
		} else if c != nil {
			l.onDeparture(c)
		}
	}
	if calls { // last: departures leave descriptors
		l.accept()
	}
}

// next accepts a caller.
func (l *Listener) next() (fd int, err error) {
	fd, _, err = unix.Accept4(l.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	return fd, err
}

// accept takes all callers.
func (l *Listener) accept() {
	_ = l.openSpare() // it is there, unless the process had no descriptor
	for range maxTurn {
		fd, err := l.next()
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			l.turnAway()
			return
		}
		l.mu.Lock()
		ok := l.roomLocked(false)
		if ok {
			l.conns[int32(fd)] = caller{}
		}
		l.mu.Unlock()
		if !ok || l.watch(fd, 0) != nil {
			l.mu.Lock()
			delete(l.conns, int32(fd))
			l.mu.Unlock()
			unix.Close(fd)
			continue
		}
		fdtrack.Add(fd)
	}
}

// Dial is the function Dial of this process, unless rings have all descriptors that they may have.
func (l *Listener) Dial(path string, slot int, patience monotime.Duration) (*Out, error) {
	l.mu.Lock()
	ok := l.roomLocked(true)
	l.mu.Unlock()
	if !ok {
		return nil, errFull
	}
	return Dial(path, l.self, slot, patience)
}

var errFull = errors.New("shmring: rings have all descriptors that they may have")

// roomLocked reports whether there may be one more ring, to another process or from it.
func (l *Listener) roomLocked(out bool) bool {
	n := 0
	for _, c := range l.conns {
		if _, is := c.(*Out); is == out {
			n++
		}
	}
	var descriptors unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &descriptors) // it does not fail
	return n < maxRings && uint64(n) < descriptors.Cur/descriptorShare
}

const (
	// maxRings bounds the rings in each direction: as many processes share an address.
	maxRings = 1024
	// descriptorShare is the part of the descriptors that each direction may have rings for. A ring
	// in has one, a ring out two: together they take half of all. Packets of other peers go through
	// sockets, which need no descriptor for a peer.
	descriptorShare = 6
)

// answer takes the ring of a process that dialled, or turns it away.
func (l *Listener) answer(fd int) {
	in, err := l.take(fd)
	l.mu.Lock()
	if err != nil {
		l.forgetLocked(int32(fd))
	} else {
		l.conns[int32(fd)] = in
	}
	l.mu.Unlock()
	if err != nil {
		closeFD(fd)
		return
	}
	l.onArrival(in)
}

func (l *Listener) take(fd int) (*In, error) {
	h, mfd, err := hear(fd, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(mfd)
	if h.who.NetDev != l.self.NetDev || h.who.NetIno != l.self.NetIno || h.who.Slot == l.self.Slot {
		return nil, errStranger
	}
	memory, err := mapMemory(mfd)
	if err != nil {
		return nil, err
	}
	if err := say(fd, l.self, l.event); err != nil {
		endMapping(memory)
		return nil, err
	}
	return &In{Consumer: newConsumer(memory), Peer: h.who, fd: fd, memory: memory}, nil
}

// forgetLocked ends the watch of a connection, before it is closed: a forked
// child may still have a copy of it, which would keep epoll reporting.
func (l *Listener) forgetLocked(fd int32) {
	delete(l.conns, fd)
	if fdtrack.Check() {
		return
	}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) // it is there
}

// Forget ends Watch, or the watch of a ring that arrived, before it is closed. It
// may have ended.
func (l *Listener) Forget(end any) {
	var fd int32
	switch end := end.(type) {
	case *In:
		fd = int32(end.fd)
	case *Out:
		fd = int32(end.descriptor())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[fd] == end {
		l.forgetLocked(fd)
	}
}

// Withdraw removes this process's name from the directory. It is for a process that is about to end
// without Close.
func (l *Listener) Withdraw() { os.Remove(l.path) }

// Close ends listening, and connections without a hello. The owners of rings close them. No thread
// may be in Serve.
func (l *Listener) Close() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for fd, c := range conns {
		if _, ok := c.(caller); ok {
			closeFD(int(fd))
		}
	}
	if l.fd >= 0 {
		l.Withdraw()
		closeFD(l.fd)
	}
	if l.spare >= 0 {
		closeFD(l.spare)
	}
	if l.epoll >= 0 {
		closeFD(l.epoll)
	}
}

// NetNamespace returns the identity of a process that owns a slot, in the network
// namespace of the calling thread, which may have moved alone.
func NetNamespace(slot int) (Identity, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return Identity{}, os.NewSyscallError("stat /proc/thread-self/ns/net", err)
	}
	return Identity{Slot: slot, NetDev: st.Dev, NetIno: st.Ino}, nil
}
