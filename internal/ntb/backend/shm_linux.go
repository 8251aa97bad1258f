// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
)

// shm is a link between two processes of a host, or of one to itself. Its doorbell is written only
// when the peer has said that it sleeps: see channel.Channel.MustWake.
type shm struct {
	// its end shows that the peer has died; it carries nothing after the introduction. none: we are
	// the peer
	socket   fd
	bell     fd // ours: the peer writes it
	peerBell fd // none: it is ours
	own      *window.Window
	peerMem  []byte // to be unmapped
	peer     window.Far
	calls    uint // of Receive
}

// seals keep every holder of the descriptor from making the memory shorter: a reader would get
// SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

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

func (l *shm) Own() *window.Window          { return l.own }
func (l *shm) PeerBytes() uint64            { return l.peer.Len() }
func (l *shm) Write(b *channel.Batch) error { return b.Apply(l.peer) }
func (l *shm) Flush() (bool, error)         { return false, nil }

func (l *shm) FDs() []int {
	if l.socket == none {
		return []int{int(l.bell)}
	}
	return []int{int(l.bell), int(l.socket)}
}

func (l *shm) Ring() {
	bell := l.peerBell
	if bell == none {
		bell = l.bell
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(int(bell), one[:]) // EAGAIN: it is rung already
}

// lookEvery is the number of calls of Receive between two checks that the peer lives. A polling
// thread calls it some million times a second, and never waits.
const lookEvery = 1 << 12

// Receive has nothing to do: the peer's writes are there. It leaves the doorbell alone, by which
// another thread may sleep.
func (l *shm) Receive() error {
	if l.calls++; l.calls%lookEvery != 0 || l.socket == none {
		return nil
	}
	ended, err := poll([]unix.PollFd{{Fd: int32(l.socket), Events: unix.POLLIN}}, 0)
	if ended && err == nil {
		err = ErrLost
	}
	return err
}

func (l *shm) Wait(d time.Duration) error {
	// One without a number is passed over.
	list := [2]unix.PollFd{{Fd: int32(l.bell), Events: unix.POLLIN},
		{Fd: int32(l.socket), Events: unix.POLLIN}}
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

// Close unmaps the peer's window.
func (l *shm) Close() error {
	l.socket.close()
	l.bell.close()
	l.peerBell.close()
	unmapParts(l.peerMem)
	l.peerMem = nil
	return nil
}
