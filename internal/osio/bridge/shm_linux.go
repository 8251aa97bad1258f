package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// shm is a link between two processes of a host. Its doorbell is written only
// when the peer has said that it sleeps: see channel.Channel.MustWake.
type shm struct {
	socket   fd // tells when the peer dies; nothing is said after the greeting
	bell     fd // ours: the peer writes it
	peerBell fd
	own      *backing
	ours     bool // own goes with the link
	peerMem  []byte
	peer     window.Far
	calls    uint // of Receive
}

// ListenShm waits for peers at a path, where a Unix socket comes to be. One that
// is left over from a process that is gone is replaced.
func ListenShm(path string, windowBytes uint64) (*Listener, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	return listenShm(path, func(f fd) (Link, error) { return newOwnShm(f, windowBytes) })
}

func listenShm(path string, open func(fd) (Link, error)) (*Listener, error) {
	sa := &unix.SockaddrUnix{Name: path}
	l, err := listen(unix.AF_UNIX, unix.SOCK_SEQPACKET, sa, open)
	if errors.Is(err, unix.EADDRINUSE) {
		f, dialErr := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, sa, time.Second)
		if dialErr != ErrLost {
			f.close()
			return nil, fmt.Errorf("%w: %s", ErrInUse, path)
		}
		unix.Unlink(path)
		l, err = listen(unix.AF_UNIX, unix.SOCK_SEQPACKET, sa, open)
	}
	if err != nil {
		return nil, err
	}
	l.path = path
	return l, nil
}

// DialShm goes to the peer that listens at a path. It tries once: ErrLost if nobody listens.
func DialShm(path string, windowBytes uint64, d time.Duration) (Link, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	f, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, &unix.SockaddrUnix{Name: path}, d)
	if err != nil {
		return nil, err
	}
	return newOwnShm(f, windowBytes)
}

func dialShm(path string, own *backing, d time.Duration) (Link, error) {
	f, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, &unix.SockaddrUnix{Name: path}, d)
	if err != nil {
		return nil, err
	}
	return newShm(f, own)
}

// seals keep whoever has the descriptor from making the memory shorter, which
// would be SIGBUS to the one that looks at it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newOwnShm makes a link with a window of its own.
func newOwnShm(f fd, windowBytes uint64) (Link, error) {
	own, err := newBacking(windowBytes, true)
	if err != nil {
		f.close()
		return nil, err
	}
	l, err := newShm(f, own)
	if err != nil {
		own.close()
		return nil, err
	}
	l.(*shm).ours = true
	return l, nil
}

func newShm(f fd, own *backing) (Link, error) {
	l := &shm{socket: f, bell: none, peerBell: none, own: own}
	if err := l.open(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// open passes our half of the link, and takes the peer's.
func (l *shm) open() error {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	l.bell = hold(bell)
	greeting := wire.Greeting{WindowBytes: uint64(len(l.own.b))}.Append(nil)
	if err := unix.Sendmsg(int(l.socket), greeting, unix.UnixRights(int(l.own.f), bell), nil, unix.MSG_NOSIGNAL); err != nil {
		return ErrLost
	}
	if err := await(l.socket, unix.POLLIN, greetingTime); err != nil {
		return err
	}
	if err := l.takeGreeting(); err != nil {
		return err
	}
	l.peer = window.New(l.peerMem).Far()
	return nil
}

func (l *shm) takeGreeting() error {
	var b [wire.GreetingBytes + 1]byte
	oob := make([]byte, unix.CmsgSpace(2*4))
	n, oobn, flags, _, err := unix.Recvmsg(int(l.socket), b[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return ErrLost
	}
	fds := passed(oob[:oobn])
	if len(fds) == 2 {
		l.peerBell = hold(fds[1])
		defer unix.Close(fds[0])
	} else {
		for _, f := range fds {
			unix.Close(f)
		}
	}
	g, _, ok := wire.ParseGreeting(b[:n])
	if !ok || n != wire.GreetingBytes || len(fds) != 2 || flags&unix.MSG_CTRUNC != 0 || checkBytes(g.WindowBytes) != nil {
		return ErrProtocol
	}
	var st unix.Stat_t
	if got, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return fmt.Errorf("%w: its window may shrink", ErrProtocol)
	}
	if err := unix.Fstat(fds[0], &st); err != nil || st.Size != int64(g.WindowBytes) {
		return fmt.Errorf("%w: its window is of another size", ErrProtocol)
	}
	// A descriptor of another kind might block whoever writes it.
	if flags, err := unix.FcntlInt(uintptr(fds[1]), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		return fmt.Errorf("%w: its doorbell blocks", ErrProtocol)
	}
	l.peerMem, err = mapShared(fds[0], g.WindowBytes)
	return err
}

// passed returns the descriptors of a message.
func passed(oob []byte) (fds []int) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range list {
		if f, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, f...)
		}
	}
	return fds
}

// mapShared maps memory that a child of a fork has no part in.
func mapShared(f int, n uint64) ([]byte, error) { return mapSharedAt(f, 0, n) }

func mapSharedAt(f int, offset int64, n uint64) ([]byte, error) {
	b, err := unix.Mmap(f, offset, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
		unix.Munmap(b)
		return nil, os.NewSyscallError("madvise", err)
	}
	return b, nil
}

func (l *shm) Own() *window.Window          { return l.own.w }
func (l *shm) PeerBytes() uint64            { return l.peer.Len() }
func (l *shm) Write(b *channel.Batch) error { return b.Apply(l.peer) }
func (l *shm) Flush() (bool, error)         { return false, nil }
func (l *shm) FDs() []int                   { return []int{int(l.bell), int(l.socket)} }

func (l *shm) Ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(int(l.peerBell), one[:]) // EAGAIN: it is rung already
}

// lookEvery is how many calls of Receive go by between two looks whether the
// peer lives: who polls does so some million times a second, and never waits.
const lookEvery = 1 << 12

// Receive has nothing to do: what the peer writes is there.
func (l *shm) Receive() error {
	if l.calls++; l.calls%lookEvery == 0 {
		return l.Wait(0)
	}
	return nil
}

func (l *shm) Wait(d time.Duration) error {
	list := [2]unix.PollFd{{Fd: int32(l.bell), Events: unix.POLLIN}, {Fd: int32(l.socket), Events: unix.POLLIN}}
	if _, err := poll(list[:], d); err != nil {
		return err
	}
	if list[1].Revents != 0 {
		return ErrLost
	}
	if list[0].Revents != 0 {
		var b [8]byte
		unix.Read(int(l.bell), b[:])
	}
	return nil
}

// Close unmaps the peer's window, and ours if it is the link's.
func (l *shm) Close() error {
	l.socket.close()
	l.bell.close()
	l.peerBell.close()
	if l.peerMem != nil {
		unix.Munmap(l.peerMem)
		l.peerMem = nil
	}
	if l.ours {
		l.own.close()
	}
	return nil
}
