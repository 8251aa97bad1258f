// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/xsk"
)

// frame is one message between a member and the keeper: JSON, with descriptors beside it
// where it says so. Fields a reader does not know are ignored, so that processes of
// different versions can share.
type frame struct {
	Kind kind           `json:"kind"`
	ID   uint64         `json:"id,omitempty"`   // of a request, repeated in its answer
	Slot int            `json:"slot,omitempty"` // claim, welcome: the member's; of a seat: place
	Name string         `json:"name,omitempty"` // frames, and its answer: of the interface
	Keys []string       `json:"keys,omitempty"` // listen, unlisten: one; claim: all of the sender
	Addr netip.Addr     `json:"addr,omitzero"`  // socket, receive, send; mad: its destination
	Src  netip.AddrPort `json:"src,omitzero"`   // mad; send: the peer; port, unport: own
	TOS  uint8          `json:"tos,omitempty"`  // mad
	Part int            `json:"part,omitempty"` // part: which
	// claim: the parts whose sockets the sender reads
	Parts []memberPart `json:"parts,omitempty"`
	Data  []byte       `json:"data,omitempty"` // mad, send: the UDP payload
	// answer to dropped: how many; claim: the last such answer; frames: of queues
	Count uint64 `json:"count,omitempty"`
	// answer: the error, as an errno where there is one and in words.
	Errno syscall.Errno `json:"errno,omitempty"`
	Err   string        `json:"err,omitempty"`

	fds []int // descriptors that came beside it, the receiver's then
	cut bool  // there was not room for all
}

type kind string

const (
	// Member to keeper.
	kindJoin     kind = "join"     // give me a slot; answered by welcome, or with an error
	kindClaim    kind = "claim"    // I own this slot; my vault's end is beside; answered by welcome
	kindSocket   kind = "socket"   // answered with my socket at Addr
	kindPart     kind = "part"     // answered with the socket at Addr of a part of my slot
	kindSteer    kind = "steer"    // datagrams for this part go to its socket from now on; answered
	kindReceive  kind = "receive"  // have management datagrams to Addr arrive; answered
	kindSend     kind = "send"     // send Data from Addr to Src; not answered
	kindListen   kind = "listen"   // answered
	kindUnlisten kind = "unlisten" // answered
	kindFrames   kind = "frames"   // give me a seat at interface Name; answered with descriptors
	kindPort     kind = "port"     // my seat at interface Count is for the socket beside; answered
	kindUnport   kind = "unport"   // end that for Src; answered
	kindDropped  kind = "dropped"  // how many datagrams has the keeper dropped? answered
	kindBye      kind = "bye"      // I leave in order
	// Keeper to member.
	kindWelcome kind = "welcome" // you are a member; with an end of the vault
	kindAnswer  kind = "answer"
	kindMAD     kind = "mad"
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

var errTooManyFiles = fmt.Errorf(
	"portshare: no descriptor is left: raise the limit of open files (ulimit -n): %w", unix.EMFILE)

// link is a connection between a member and the keeper. Several goroutines may
// send; one receives.
type link struct {
	*socket
	deadline time.Time // of the receiver; zero is none
	buf      []byte    // of the receiver
	oob      [64]byte  // of the receiver: room for the descriptors of a seat
	early    []frame   // of the receiver: datagrams that came before the welcome
	backlog  backlog   // of the keeper's goroutine that passes datagrams on
}

// newLink takes over a connected socket if the process at the other end is this
// user's.
func newLink(w *watch, fd int) (*link, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("portshare: process %d at the other end belongs to user %d", cred.Pid,
			cred.Uid)
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
	return &link{socket: s, buf: make([]byte, maxFrameBytes)}, nil
}

// dial connects to a keeper. One that does not accept is none.
func dial(w *watch, path string) (*link, error) {
	fd, err := connect(path)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil { // sends wait for room, see writeTimeout
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return newLink(w, fd)
}

func connect(path string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// send writes a frame, and descriptors beside it. A link that fails to
// send is closed, so that its receiver learns of it.
func (l *link) send(f frame, fds ...int) error {
	err := l.write(f, 0, fds...)
	if err != nil {
		l.close()
	}
	return err
}

// offer is send without a wait. A link that is full, because the process at the
// other end is stopped or slow, stays open: the error is EAGAIN.
func (l *link) offer(f frame) error {
	err := l.write(f, unix.MSG_DONTWAIT)
	if err != nil && err != unix.EAGAIN {
		l.close()
	}
	return err
}

func (l *link) write(f frame, flags int, fds ...int) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return l.put(b, oob, flags)
}

// appendSend is the frame of kindSend as json.Marshal makes it, without allocation: any
// stranger may have a datagram answered.
func appendSend(b []byte, src netip.Addr, dst netip.AddrPort, datagram []byte) []byte {
	b = append(b, `{"kind":"send","addr":"`...)
	b = src.AppendTo(b)
	b = append(b, `","src":"`...)
	b = dst.AppendTo(b)
	b = append(b, `","data":"`...)
	b = base64.StdEncoding.AppendEncode(b, datagram)
	return append(b, `"}`...)
}

// put writes the bytes of a frame.
func (l *link) put(b, oob []byte, flags int) error {
	err := error(unix.EINTR)
	deadline := time.Now().Add(writeTimeout)
	for err == unix.EINTR && time.Now().Before(deadline) {
		err = l.do(func(fd int) error {
			return unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL|flags)
		})
	}
	return err
}

// receive reads the next frame, and waits for it. Descriptors that no frame of its kind has are
// closed.
func (l *link) receive() (frame, error) { return l.receiveBy(l.read) }

// receiveNow is receive without a wait: the error is EAGAIN if there is no frame.
func (l *link) receiveNow() (frame, error) { return l.receiveBy(l.readNow) }

func (l *link) receiveBy(read func() (n, oobn, flags int, err error)) (frame, error) {
	n, oobn, flags, err := read()
	if errors.Is(err, syscall.ECONNRESET) {
		// The other end is gone and had not read all of ours. The kernel reports that once, before
		// the frames that are still queued for us.
		n, oobn, flags, err = read()
	}
	if err != nil {
		return frame{}, err
	}
	f := frame{fds: descriptors(l.oob[:oobn]), cut: flags&unix.MSG_CTRUNC != 0}
	if n == 0 {
		err = net.ErrClosed
	} else if flags&unix.MSG_TRUNC != 0 {
		err = unix.EMSGSIZE
	} else {
		err = json.Unmarshal(l.buf[:n], &f)
	}
	if want := f.wants(); err != nil || len(f.fds) > want {
		closeAll(f.fds)
		f.fds = nil
	}
	return f, err
}

// wants returns how many descriptors a frame may have beside it.
func (f *frame) wants() int {
	if f.Kind == kindAnswer && f.Name != "" {
		return 1 + xsk.MaxQueues
	}
	switch f.Kind {
	case kindClaim, kindWelcome, kindAnswer, kindPort:
		return 1
	}
	return 0
}

func (l *link) read() (n, oobn, flags int, err error) {
	err = l.await(l.deadline, func(int) (err error) {
		n, oobn, flags, err = l.readNow()
		return err
	})
	return n, oobn, flags, err
}

func (l *link) readNow() (n, oobn, flags int, err error) {
	err = l.do(func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, l.buf, l.oob[:],
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
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
