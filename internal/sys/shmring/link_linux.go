// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// Out is a ring to another process, which this one writes.
type Out struct {
	*Producer
	Peer   Identity
	self   Identity
	memory []byte

	mu    sync.Mutex
	fd    int  // guarded by mu: the connection; -1 once closed
	event int  // guarded by mu: the peer's eventfd; -1 while it has not answered, and once closed
	alone bool // guarded by mu: this ring is given up, by a process that lives
}

// In is a ring from another process, which this one reads.
type In struct {
	*Consumer
	Peer   Identity
	fd     int
	memory []byte
}

var one = binary.NativeEndian.AppendUint64(nil, 1)

// Wake ends the peer's sleep. One that has not answered yet is awake.
func (o *Out) Wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hearLocked(0)
	if !fdtrack.Lost() && o.event >= 0 {
		_, _ = unix.Write(o.event, one) // full is as good: it will be read
	}
}

// hearLocked takes the peer's answer if it has not come before. The error is ErrSilent
// where it has not come now.
func (o *Out) hearLocked(patience monotime.Duration) error {
	if o.fd < 0 {
		return os.ErrClosed
	}
	if o.event >= 0 {
		return nil
	}
	h, event, err := hear(o.fd, patience)
	if err != nil {
		return err
	}
	if h.who.Slot != o.Peer.Slot || h.who.NetDev != o.self.NetDev || h.who.NetIno != o.self.NetIno {
		unix.Close(event)
		return errStranger
	}
	fdtrack.Add(event)
	o.event = event
	return nil
}

// departed reads from the peer, and reports whether it has gone.
func (o *Out) departed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd < 0 {
		return true
	}
	if o.event < 0 {
		err := o.hearLocked(0)
		o.alone = err != nil && err != ErrSilent // refused
		return o.alone
	}
	n, _, err := unix.Recvfrom(o.fd, make([]byte, len(endOfRing)), unix.MSG_DONTWAIT)
	o.alone = n > 0 && err == nil
	return err != unix.EAGAIN
}

// HangUp ends the connection for both sides: each learns of it from its Listener,
// and the other that this process has not ended.
func (o *Out) HangUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd >= 0 {
		hangUp(o.fd)
	}
}

// PeerEnded reports, once Out's departure was reported, whether the process at the other end has
// ended: false says that it hung up.
func (o *Out) PeerEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.alone
}

// HangUp is Out's.
func (i *In) HangUp() { hangUp(i.fd) }

func hangUp(fd int) {
	if !fdtrack.Check() {
		// it may have ended already
		_ = unix.Send(fd, endOfRing, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
}

// endOfRing is the last message on a ring that a process gives up. A process that ends sends none.
var endOfRing = []byte("hung up")

// Taken reports whether the peer has taken the ring. Until then it may still refuse it.
func (o *Out) Taken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.event >= 0
}

// Await waits up to patience for the peer's answer. It reports whether the peer may take the ring:
// it has not refused it, and is there.
func (o *Out) Await(patience monotime.Duration) bool {
	for until := monotime.Now().Add(patience); ; {
		there := o.Alive()
		if !there || o.Taken() || monotime.Now() >= until {
			return there
		}
		// fails without an answer; the goroutine that serves the Listener may take that first
		_ = awaitInput(o.descriptor(), monotime.Millisecond)
	}
}

// descriptor returns that of the connection, -1 once it is closed. poll ignores that one.
func (o *Out) descriptor() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fd
}

// Open reports whether o was not closed.
func (o *Out) Open() bool { return o.memory != nil }

// Alive reports whether the process at the other end is there.
func (o *Out) Alive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.hearLocked(0); err != nil {
		return err == ErrSilent
	}
	return alive(o.fd)
}

// alive reports whether a connection that carries no more messages stands.
func alive(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}

// Close unmaps the ring and ends the connection. Nobody may write to the ring any more. Await, in
// another thread, returns false then. A second Close does nothing.
func (o *Out) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd < 0 {
		return
	}
	if o.event >= 0 {
		closeFD(o.event)
	}
	closeFD(o.fd)
	o.fd, o.event = -1, -1 // the numbers are someone else's from now on
	endMapping(o.memory)
	o.memory = nil
}

// Close is Out's.
func (i *In) Close() {
	closeFD(i.fd)
	endMapping(i.memory)
}

func closeFD(fd int) { _ = fdtrack.Close(fd) } // nothing is written that could be lost

var errStranger = errors.New("shmring: the process at the other end has another user, network " +
	"namespace or version")

// Dial makes a ring to the process that listens at path, if that owns the slot and is of our
// network namespace. It waits up to patience for the answer. A process that is stopped, or waits
// for a processor, finds the ring when it goes on, with everything written to it. If it refuses the
// ring then, it departs.
func Dial(path string, self Identity, slot int, patience monotime.Duration) (*Out, error) {
	fd, err := unix.Socket(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	memory, mfd, err := newMemory()
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	o := &Out{Producer: newProducer(memory), Peer: self, self: self, fd: fd, event: -1,
		memory: memory}
	o.Peer.Slot = slot
	err = say(fd, self, mfd)
	unix.Close(mfd)
	if err == nil {
		err = o.hearLocked(patience)
	}
	if err != nil && err != ErrSilent {
		unix.Close(fd)
		endMapping(memory)
		return nil, err
	}
	fdtrack.Add(fd)
	return o, nil
}

// say sends our hello with a descriptor.
func say(fd int, self Identity, with int) error {
	if err := sameUser(fd); err != nil {
		return err
	}
	h := hello{bytes: totalBytes, who: self}
	return os.NewSyscallError("sendmsg",
		unix.Sendmsg(fd, h.append(nil), unix.UnixRights(with), nil, unix.MSG_NOSIGNAL))
}

// hear waits for the other side's hello, which comes with a descriptor.
func hear(fd int, patience monotime.Duration) (h hello, with int, err error) {
	if err := awaitInput(fd, patience); err != nil {
		return hello{}, -1, err
	}
	var b [helloBytes + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := unix.Recvmsg(fd, b[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return hello{}, -1, os.NewSyscallError("recvmsg", err)
	}
	fds := rights(oob[:oobn])
	h, ok := parseHello(b[:n])
	if !ok || len(fds) != 1 || flags&unix.MSG_CTRUNC != 0 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return hello{}, -1, errStranger
	}
	return h, fds[0], nil
}

// awaitInput waits until something has come. The error is ErrSilent if nothing comes in time.
func awaitInput(fd int, patience monotime.Duration) error {
	for until := monotime.Now().Add(patience); ; {
		left := max(until.Sub(monotime.Now()), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
			int((left+monotime.Millisecond-1)/monotime.Millisecond))
		switch {
		case n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return os.NewSyscallError("poll", err)
		case left == 0:
			return ErrSilent
		}
	}
}

// rights returns the descriptors in control messages.
func rights(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func sameUser(fd int) error {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_PEERCRED", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return errStranger
	}
	return nil
}
