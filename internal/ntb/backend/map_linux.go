// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// mapped is a link through memory that both nodes map.
type mapped struct {
	f      fd    // of the file; none
	vfio   *vfio // the device; nil
	door   *doorbell
	memory []byte
	own    *window.Window
	peer   window.Far
	gone   atomic.Bool // the file became shorter, or the device was pulled
	folder string      // of the PCI device in sysfs; empty where there is none
	seen   uint32
	looked time.Time // when Receive last looked whether the device has gone
}

// pulledEvery is the shortest time between two looks for a device that reads as ones: a peer may
// write ones for ever.
const pulledEvery = 100 * time.Millisecond

// openFile opens one side, 0 or 1, of a link through a file, or through the BAR of
// a PCI device: /sys/bus/pci/devices/…/resource2 of an ivshmem device. Both sides
// see the same bytes; the lower half is side 0's window.
//
// The file may be older than both nodes: the sessions of package channel tell. A
// process that may write the file may also make it shorter: all calls return
// ErrGone then. A device that is pulled out reads as ones, which no peer writes:
// package channel takes the link as down, and Receive finds out whether the device has gone.
//
// Errors: ErrConfig if it is too small; ErrInUse if a process of this host has
// the side.
func openFile(path string, side int) (*mapped, error) {
	if side != 0 && side != 1 {
		return nil, fmt.Errorf("%w: side %d", ErrConfig, side)
	}
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
	var st unix.Stat_t
	if err := unix.Fstat(int(l.f), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(side), Len: 1}
	if err := unix.FcntlFlock(uintptr(l.f), unix.F_OFD_SETLK, &lock); err != nil {
		return fmt.Errorf("%w: side %d of %s", ErrInUse, side, path)
	}
	if err := l.split(l.f, 0, uint64(st.Size), side); err != nil {
		return fmt.Errorf("%s, shared by halves: %w", path, err)
	}
	return nil
}

// split maps n bytes of a descriptor, half of them for each side.
func (l *mapped) split(f fd, offset, n uint64, side int) error {
	half := n / 2
	if err := checkBytes(half); err != nil {
		return err
	}
	var err error
	if l.memory, err = mapSharedAt(int(f), int64(offset), 2*half); err != nil {
		return err
	}
	halves := [2][]byte{l.memory[:half], l.memory[half:]}
	l.own = window.Fragile(halves[side], &l.gone)
	l.peer = window.Fragile(halves[1-side], &l.gone).Far()
	l.peer.Store4(wire.OffWake, 0)
	return nil
}

func (l *mapped) Own() *window.Window  { return l.own }
func (l *mapped) PeerBytes() uint64    { return l.peer.Len() }
func (l *mapped) Flush() (bool, error) { return false, nil }

func (l *mapped) Write(b *channel.Batch) error {
	err := b.Apply(l.peer)
	if l.gone.Load() {
		return ErrGone
	}
	return err
}

func (l *mapped) FDs() []int {
	if l.door == nil {
		return nil
	}
	return []int{int(l.door.event)}
}

func (l *mapped) Ring() {
	if l.door == nil {
		return
	}
	if id := l.own.Load4(wire.OffWake); id != 0 {
		l.door.ring(id - 1)
	}
}

func (l *mapped) Receive() error {
	l.seen = l.own.Load4(wire.OffSignal)
	if l.seen == ones && l.folder != "" && time.Since(l.looked) >= pulledEvery {
		l.looked = time.Now()
		if pulled(l.folder) {
			l.gone.Store(true)
		}
	}
	if l.gone.Load() {
		return ErrGone
	}
	return nil
}

// Wait without a doorbell reads the signal word after each pause, which doubles from the first to
// the longest.
const (
	firstPause = 20 * time.Microsecond // the peer may answer at once
	maxPause   = time.Millisecond      // of an idle link: 1,000 wake-ups per second
)

// Wait sleeps until the doorbell. Where one of the two has none it reads the signal word, less and
// less often.
func (l *mapped) Wait(d time.Duration) error {
	if l.door != nil && l.own.Load4(wire.OffWake) != 0 {
		return l.door.wait(d)
	}
	end, pause := time.Now().Add(d), firstPause
	for ; l.own.Load4(wire.OffSignal) == l.seen; pause = min(2*pause, maxPause) {
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
	if l.memory != nil {
		unix.Munmap(l.memory)
		l.memory = nil
	}
	l.f.close()
	if l.door != nil {
		l.door.event.close()
	}
	if l.vfio != nil {
		l.vfio.close()
	}
	return nil
}
