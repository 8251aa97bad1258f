// SPDX-License-Identifier: BSD-2-Clause

package xrcfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// Place is this process's in a domain.
type Place struct {
	// immutable after Enter
	options Options
	suffix  string // of the domain's sockets
	path    string // of the socket
	inode   uint64 // of the socket's name
	file    int    // the domain's
	listen  int
	epoll   int
	event   int // wakes the goroutine

	jobs sync.WaitGroup

	mu     sync.Mutex
	links  map[int32]*Link // guarded by mu: by descriptor
	closed bool            // guarded by mu
}

// Link is a connection to another process of the domain.
type Link struct {
	place   *Place
	handler Handler // immutable once the goroutine knows the link

	mu sync.Mutex
	fd int // guarded by mu; -1 once closed
}

const (
	maxLinks     = 4096 // of a Place
	listenQueue  = 1024 // processes that share an address
	maxEvents    = 16
	lockPatience = 5 * time.Second // others hold the lock for a fraction of a millisecond
	dialPatience = 5 * time.Second // a process that is not stopped accepts at once
)

// domainMark begins the suffix of a domain's sockets.
const domainMark = ".x"

// Enter makes this process one of a domain.
func Enter(o Options) (*Place, error) {
	p := &Place{options: o, file: -1, listen: -1, epoll: -1, event: -1, links: map[int32]*Link{}}
	if err := p.open(); err != nil {
		p.release()
		return nil, err
	}
	p.jobs.Add(1)
	go func() {
		defer p.jobs.Done()
		p.run()
	}()
	return p, nil
}

func (p *Place) open() (err error) {
	if p.file, err = duplicate(p.options.File); err != nil {
		return err
	}
	fdtrack.Add(p.file)
	var st unix.Stat_t
	if err := unix.Fstat(p.file, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	p.suffix = suffix(p.options.Device, uint64(st.Dev), st.Ino)
	p.path = p.options.Path(p.options.Slot) + p.suffix
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	exists := p.look()
	switch {
	case exists && p.options.Exclusive:
		return fs.ErrExist
	case !exists && !p.options.Create:
		return fs.ErrNotExist
	}
	return p.begin()
}

// duplicate returns a descriptor of a file that stays the caller's.
func duplicate(f *os.File) (fd int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	var dup error
	if err := c.Control(func(n uintptr) {
		fd, dup = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return -1, err
	}
	return fd, os.NewSyscallError("fcntl", dup)
}

// suffix ends the names of a domain's sockets.
func suffix(device string, dev, ino uint64) string {
	b := binary.LittleEndian.AppendUint64([]byte(device), dev)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, ino))
	return fmt.Sprintf(domainMark+"%x", sum[:8])
}

// lock locks a file, for as long as it takes to enter or to leave a domain.
func (p *Place) lock() (unlock func(), err error) {
	path := filepath.Join(filepath.Dir(p.path), "xrc.lock")
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	fdtrack.Add(fd) // a child of a fork closes it
	for until := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = fdtrack.Close(fd) }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR || time.Now().After(until) {
			_ = fdtrack.Close(fd)
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
	}
}

// look reports whether another process is in the domain. It removes the sockets of processes that
// were killed, of all domains.
func (p *Place) look() (exists bool) {
	own := p.options.Path(0)
	family := own[:len(own)-1] // of this network namespace
	dir := filepath.Dir(p.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(name, family) || !strings.Contains(e.Name(), domainMark) ||
			name == p.path {
			continue
		}
		fd, err := connect(name)
		switch {
		case err == nil || errors.Is(err, unix.EAGAIN): // its queue is full
			exists = exists || strings.HasSuffix(name, p.suffix)
			if err == nil {
				unix.Close(fd)
			}
		case errors.Is(err, unix.ECONNREFUSED):
			os.Remove(name)
		}
	}
	return exists
}

// connect connects to a socket of a process of this user, which need not accept.
func connect(path string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	if err := sameUser(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sameUser(fd int) error {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_PEERCRED", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return os.NewSyscallError("connect", unix.EPERM)
	}
	return nil
}

// begin listens.
func (p *Place) begin() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	fdtrack.Add(p.epoll)
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(p.event)
	if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // else it is that of a dead process with this slot
	}
	p.listen, err = unix.Socket(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	fdtrack.Add(p.listen)
	if err := unix.Bind(p.listen, &unix.SockaddrUnix{Name: p.path}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if p.inode = inodeOf(p.path); p.inode == 0 {
		return &fs.PathError{Op: "lstat", Path: p.path, Err: fs.ErrNotExist}
	}
	if err := unix.Listen(p.listen, listenQueue); err != nil {
		return os.NewSyscallError("listen", err)
	}
	return errors.Join(p.watch(p.listen), p.watch(p.event))
}

// inodeOf returns the inode of a name, 0 if there is none.
func inodeOf(path string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

func (p *Place) watch(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// run waits for messages until Close, or until the application has closed all descriptors.
func (p *Place) run() {
	var events [maxEvents]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.epoll, events[:], -1)
		if fdtrack.Check() || err != nil && err != unix.EINTR {
			break
		}
		for _, e := range events[:max(n, 0)] {
			switch int(e.Fd) {
			case p.event:
				p.endLinks()
				return
			case p.listen:
				p.accept()
			default:
				p.mu.Lock()
				l := p.links[e.Fd]
				p.mu.Unlock()
				if l != nil {
					p.read(l)
				}
			}
		}
	}
	p.endLinks()
}

func (p *Place) accept() {
	for range maxEvents { // the rest is reported again
		fd, _, err := unix.Accept4(p.listen, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			if err == unix.EMFILE || err == unix.ENFILE {
				time.Sleep(time.Millisecond) // the caller waits until there is a descriptor
			}
			return
		}
		fdtrack.Add(fd)
		l := &Link{place: p, fd: fd}
		if sameUser(fd) != nil {
			_ = fdtrack.Close(fd)
			continue
		}
		l.handler = p.options.Accept(l)
		if p.add(l) != nil {
			l.drop()
		}
	}
}

// add has the goroutine read a link.
func (p *Place) add(l *Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.links) >= maxLinks {
		return os.ErrClosed
	}
	if err := p.watch(l.fd); err != nil {
		return err
	}
	p.links[int32(l.fd)] = l
	return nil
}

// read takes one message of a link, or its end.
func (p *Place) read(l *Link) {
	var b [MaxMessage]byte
	l.mu.Lock()
	fd := l.fd
	l.mu.Unlock()
	if fd < 0 {
		return
	}
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case err != nil || n == 0:
		p.end(fd, l)
	default:
		l.handler.Message(b[:n])
	}
}

// end closes a link, of the goroutine.
func (p *Place) end(fd int, l *Link) {
	p.mu.Lock()
	delete(p.links, int32(fd))
	p.mu.Unlock()
	if !fdtrack.Check() {
		// epoll would go on to report the copy of a forked child
		_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	}
	l.drop()
}

// drop closes a link that the goroutine does not know, or no more.
func (l *Link) drop() {
	l.mu.Lock()
	_ = fdtrack.Close(l.fd)
	l.fd = -1
	l.mu.Unlock()
	l.handler.End()
}

func (p *Place) endLinks() {
	for {
		var l *Link
		fd := -1
		p.mu.Lock()
		p.closed = true
		for n, found := range p.links {
			fd, l = int(n), found
			break
		}
		p.mu.Unlock()
		if l == nil {
			return
		}
		p.end(fd, l)
	}
}

// Dial makes a link to the process of a slot, if that is in the domain. Where that process has
// links to accept first, or this one has no descriptor, Dial tries again for dialPatience. It does
// so only while wanted returns true.
func (p *Place) Dial(slot int, h Handler, wanted func() bool) (*Link, error) {
	path := p.options.Path(slot) + p.suffix
	fd, err := connect(path)
	until := time.Now().Add(dialPatience)
	for passes(err) && time.Now().Before(until) && wanted() {
		time.Sleep(time.Millisecond)
		fd, err = connect(path)
	}
	if err != nil {
		return nil, err
	}
	fdtrack.Add(fd)
	l := &Link{place: p, fd: fd, handler: h}
	if err := p.add(l); err != nil {
		_ = fdtrack.Close(fd)
		return nil, err
	}
	return l, nil
}

// passes reports whether connect fails for a while only.
func passes(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// Send sends a message, and does not block. A link whose other end does not read is given up.
func (l *Link) Send(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 || fdtrack.Check() {
		return os.ErrClosed
	}
	err := unix.Send(l.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err != nil {
		_ = unix.Shutdown(l.fd, unix.SHUT_RDWR) // the goroutine does the rest
	}
	return os.NewSyscallError("send", err)
}

// Close ends a link. The goroutine calls Handler.End, later.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 && !fdtrack.Check() {
		_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
	}
}

// Go calls f in a goroutine that Close waits for. It reports false, and does not, after Close.
func (p *Place) Go(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.jobs.Add(1)
	go func() {
		defer p.jobs.Done()
		f()
	}()
	return true
}

// Go is Place.Go.
func (l *Link) Go(f func()) bool { return l.place.Go(f) }

// Close leaves the domain, ends all links and waits for the goroutines. It is the last call.
func (p *Place) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.removeName()
	if fdtrack.Check() { // the goroutine may wait for ever for a descriptor that is gone
		return
	}
	_, _ = unix.Write(p.event, binary.NativeEndian.AppendUint64(nil, 1)) // there is room
	p.jobs.Wait()
	p.release()
}

// removeName removes the socket's name, unless this process has entered the domain anew meanwhile.
// Without the lock the next process to enter a domain does it.
func (p *Place) removeName() {
	unlock, err := p.lock()
	if err != nil {
		return
	}
	defer unlock()
	if inodeOf(p.path) == p.inode { // of a name that is bound: no other file gets it meanwhile
		os.Remove(p.path)
	}
}

func (p *Place) release() {
	for _, fd := range []*int{&p.listen, &p.event, &p.epoll, &p.file} {
		if *fd >= 0 {
			_ = fdtrack.Close(*fd)
			*fd = -1
		}
	}
}
