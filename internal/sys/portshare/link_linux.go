// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// frame is one message between a member and the keeper: JSON, with the
// descriptors of a group beside it where it says so. Fields a reader does not
// know are ignored, so that processes of different versions can share.
type frame struct {
	Kind kind           `json:"kind"`
	ID   uint64         `json:"id,omitempty"`   // of a request, repeated in its answer
	Slot int            `json:"slot,omitempty"` // claim: the sender's
	Keys []string       `json:"keys,omitempty"` // listen, unlisten: one; claim: all the sender listens for
	Addr netip.Addr     `json:"addr,omitzero"`  // socket, group; mad: its destination
	Src  netip.AddrPort `json:"src,omitzero"`   // mad
	TOS  uint8          `json:"tos,omitempty"`  // mad
	Data []byte         `json:"data,omitempty"` // mad: the UDP payload
	// answer: what went wrong, as an errno where there is one and in words.
	Errno syscall.Errno `json:"errno,omitempty"`
	Err   string        `json:"err,omitempty"`
}

type kind string

const (
	// Member to keeper.
	kindClaim    kind = "claim"    // I own this slot; answered by group…, welcome
	kindSocket   kind = "socket"   // make a group for Addr; answered after group
	kindListen   kind = "listen"   // answered
	kindUnlisten kind = "unlisten" // not answered
	kindBye      kind = "bye"      // I leave in order
	// Keeper to member.
	kindWelcome kind = "welcome" // all groups have been sent
	kindAnswer  kind = "answer"
	kindMAD     kind = "mad"
	// Both ways.
	kindGroup kind = "group" // Addr and its descriptors
)

const (
	// maxFrameBytes bounds a message: the longest RoCEv2 packet in base64.
	maxFrameBytes = 16 << 10
	// maxForwardBytes bounds a datagram that is passed on in one.
	maxForwardBytes = 8 << 10
	// writeTimeout bounds the wait for a process that does not read. Its
	// connection is closed then, and it connects again when it goes on.
	writeTimeout = 200 * time.Millisecond
)

var errTooManyFiles = fmt.Errorf("share: a message was cut short: raise the limit of open files (ulimit -n): %w", unix.EMFILE)

// link is a connection between a member and the keeper. Several goroutines may
// send; one receives.
type link struct {
	*socket
	deadline time.Time // of the receiver; zero is none
	buf      []byte    // of the receiver
	oob      []byte    // of the receiver
	early    []frame   // of the receiver: datagrams that came before the welcome
	backlog  backlog   // of the keeper's goroutine that passes datagrams on
}

// newLink takes over a connected socket if the process at the other end is this
// user's.
func newLink(w *watch, fd int) (*link, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("share: process %d at the other end is user %d's", cred.Pid, cred.Uid)
	}
	if err == nil {
		timeout := unix.NsecToTimeval(int64(writeTimeout))
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	s, err := w.add(fd)
	if err != nil {
		return nil, err
	}
	return &link{socket: s, buf: make([]byte, maxFrameBytes), oob: make([]byte, unix.CmsgSpace(4*Slots))}, nil
}

// dial connects to a keeper. One that does not accept is none.
func dial(w *watch, path string) (*link, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.SetNonblock(fd, false) // sends wait for room, see writeTimeout
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	return newLink(w, fd)
}

// send writes a frame and, for a group, its descriptors. A link that fails to
// send is closed, so that its receiver learns of it.
func (l *link) send(f frame, g *group) error {
	err := l.write(f, g, 0)
	if err != nil {
		l.close()
	}
	return err
}

// offer is send without a wait. A link that is full, because the process at the
// other end is stopped or slow, stays open: the error is EAGAIN.
func (l *link) offer(f frame, g *group) error {
	err := l.write(f, g, unix.MSG_DONTWAIT)
	if err != nil && err != unix.EAGAIN {
		l.close()
	}
	return err
}

func (l *link) write(f frame, g *group, flags int) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	var oob []byte
	if g != nil {
		fds := make([]int, Slots)
		for i, s := range g.sockets {
			fds[i] = s.FD()
		}
		oob = unix.UnixRights(fds...)
	}
	err = unix.EINTR
	for deadline := time.Now().Add(writeTimeout); err == unix.EINTR && time.Now().Before(deadline); {
		err = l.do(func(fd int) error { return unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL|flags) })
	}
	return err
}

// receive reads the next frame, and makes a group of the descriptors beside it.
func (l *link) receive() (frame, *group, error) {
	n, oobn, flags, err := l.read()
	if errors.Is(err, syscall.ECONNRESET) {
		// The other end is gone and had not read all of ours. The kernel says so
		// once, before what is still queued for us: a group may be among it.
		n, oobn, flags, err = l.read()
	}
	if err != nil {
		return frame{}, nil, err
	}
	fds := descriptors(l.oob[:oobn])
	var f frame
	if n == 0 {
		err = net.ErrClosed
	} else if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errTooManyFiles
	} else {
		err = json.Unmarshal(l.buf[:n], &f)
	}
	if err != nil || f.Kind != kindGroup {
		closeAll(fds)
		return f, nil, err
	}
	g, err := adoptGroup(f.Addr, fds)
	return f, g, err
}

func (l *link) read() (n, oobn, flags int, err error) {
	err = l.await(l.deadline, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, l.buf, l.oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return err
	})
	return n, oobn, flags, err
}

// descriptors returns those in control messages.
func descriptors(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// adoptGroup makes a group of descriptors received; they are its own then, also
// after an error.
func adoptGroup(addr netip.Addr, fds []int) (*group, error) {
	if len(fds) != Slots {
		closeAll(fds)
		return nil, fmt.Errorf("share: group of %d sockets, not %d", len(fds), Slots)
	}
	g := &group{addr: addr}
	for i, fd := range fds {
		s, err := udp.Adopt(fd)
		if err != nil {
			closeAll(fds[i+1:])
			g.close()
			return nil, err
		}
		g.sockets[i] = s
	}
	return g, nil
}
