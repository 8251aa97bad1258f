package bridge

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// mapped is a link through memory that both nodes map.
type mapped struct {
	f      fd
	memory []byte
	own    *window.Window
	peer   *window.Window
	seen   uint32
}

// Map opens one side, 0 or 1, of a link through a file, or through the BAR of a
// PCI device: /sys/bus/pci/devices/…/resource2 of an ivshmem device. Both sides
// see the same bytes; the lower half is side 0's window.
//
// What is there may be older than both nodes: the sessions of package channel
// tell. Whoever else may write the file may make it shorter, which ends this process.
//
// Errors: ErrConfig if it is too small; ErrInUse if a process of this host has
// the side.
func Map(path string, side int) (Link, error) {
	n, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	l := &mapped{f: hold(n)}
	if err := l.open(path, side); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *mapped) open(path string, side int) error {
	if side != 0 && side != 1 {
		return fmt.Errorf("%w: side %d", ErrConfig, side)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(l.f), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	half := uint64(st.Size) / 2
	if err := checkBytes(half); err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(side), Len: 1}
	if err := unix.FcntlFlock(uintptr(l.f), unix.F_OFD_SETLK, &lock); err != nil {
		return fmt.Errorf("%w: side %d of %s", ErrInUse, side, path)
	}
	var err error
	if l.memory, err = mapShared(int(l.f), 2*half); err != nil {
		return err
	}
	halves := [2][]byte{l.memory[:half], l.memory[half:]}
	l.own, l.peer = window.New(halves[side]), window.New(halves[1-side])
	return nil
}

func (l *mapped) Own() *window.Window          { return l.own }
func (l *mapped) PeerBytes() uint64            { return l.peer.Len() }
func (l *mapped) Write(b *channel.Batch) error { return b.Apply(l.peer) }
func (l *mapped) Flush() (bool, error)         { return false, nil }
func (l *mapped) Ring()                        {}
func (l *mapped) FDs() []int                   { return nil }

func (l *mapped) Receive() error {
	l.seen = l.own.Load4(wire.OffSignal)
	return nil
}

// Wait looks at the signal word, less and less often.
func (l *mapped) Wait(d time.Duration) error {
	const first, longest = 20 * time.Microsecond, time.Millisecond
	for end, pause := time.Now().Add(d), first; l.own.Load4(wire.OffSignal) == l.seen; pause = min(2*pause, longest) {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		ts := unix.NsecToTimespec(int64(min(pause, left)))
		unix.Nanosleep(&ts, nil)
	}
	return nil
}

// Close unmaps the windows: nobody may use Own any more.
func (l *mapped) Close() error {
	l.f.close()
	if l.memory != nil {
		unix.Munmap(l.memory)
		l.memory = nil
	}
	return nil
}
