// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/window"
	"verbena/internal/sys/numa"
	wire "verbena/internal/wire/ntb"
)

// The first of two members that wants a link opens it:
//
//	dial    connect, Introduction and our window ──►  guest   takes it, and answers with its own
//	        takes the answer: the link is open   ◄──          the link is open
//
// Where two members dial each other at once, the dial of the lower number goes on. The other drops
// its own dial before it answers: a peer with the answer would take that dial for the slot's next
// process, and leave the link for it.

// dial is a link that we want.
type dial struct {
	at     time.Time // when to try
	until  time.Time // when to give up: it lives and does not answer
	socket fd        // none: not connected
	half   half
}

// guest is a process that has connected and has not introduced itself yet.
type guest struct {
	socket fd
	until  time.Time
}

// half is our half of a link.
type half struct {
	session *backing
	window  []byte // the session's memory, and the application's behind it
	bell    fd
}

const (
	dialPause    = 5 * time.Millisecond // between two tries to reach a member that is there
	meetPatience = 5 * time.Second      // with the other member, in either direction
	maxGuests    = 128                  // each has a descriptor; more wait to be accepted
)

// A Session is a link of a place. Own, unlike the peer's window, is there until Free.
type Session struct {
	Link
	window []byte
}

// Peer returns the window that Write writes.
func (s *Session) Peer() window.Far { return s.Link.(*shm).peer }

// Free gives Own back, which nobody may use any more.
func (s *Session) Free() {
	unmapParts(s.window)
	s.window = nil
}

// newHalf makes a window for a link.
func (p *Place) newHalf() (h half, err error) {
	h.bell = none
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	h.session = &backing{f: none}
	if err := h.session.openMemory(p.config.SessionBytes); err != nil {
		return h, err
	}
	if h.window, err = mapParts([]part{{h.session.f, p.config.SessionBytes},
		{p.memory.f, p.config.MemoryBytes}}); err != nil {
		return h, err
	}
	if e := &p.config.Endpoint; e.OnNode {
		if err := numa.Place(h.window[:p.config.SessionBytes], e.Node); err != nil {
			return h, err
		}
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return h, os.NewSyscallError("eventfd", err)
	}
	h.bell = hold(bell)
	return h, nil
}

// close gives all of it back.
func (h *half) close() {
	if h.session != nil {
		h.session.close()
	}
	unmapParts(h.window)
	h.window = nil
	h.bell.close()
}

// introduce sends our half.
func (p *Place) introduce(to fd, h *half) error {
	b := wire.Introduction{Side: uint8(p.self.Side), Slot: uint16(p.self.Slot),
		SessionBytes: p.config.SessionBytes, MemoryBytes: p.config.MemoryBytes}.Append(nil)
	rights := unix.UnixRights(int(h.session.f), int(p.memory.f), int(h.bell))
	if err := unix.Sendmsg(int(to), b, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return ErrLost
	}
	return nil
}

// peerHalf is the peer's half of a link, as it was sent.
type peerHalf struct {
	who    Member
	window []byte
	bell   fd
}

// receiveIntroduction receives a peer's introduction, with the descriptors of its window's two
// parts and its doorbell. The caller closes them, also on error.
func receiveIntroduction(from fd) (i wire.Introduction, fds []int, err error) {
	if cred, err := unix.GetsockoptUcred(int(from), unix.SOL_SOCKET,
		unix.SO_PEERCRED); err != nil || int(cred.Uid) != os.Geteuid() {
		return i, nil, fmt.Errorf("%w: it is a process of another user", ErrProtocol)
	}
	var b [wire.IntroductionBytes + 1]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, flags, _, err := unix.Recvmsg(int(from), b[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return i, nil, ErrLost
	}
	fds = passed(oob[:oobn])
	i, _, ok := wire.ParseIntroduction(b[:n])
	if !ok || n != wire.IntroductionBytes || len(fds) != 3 || flags&unix.MSG_CTRUNC != 0 {
		return i, fds, ErrProtocol
	}
	return i, fds, nil
}

// takeIntroduction takes the peer's half.
func (p *Place) takeIntroduction(from fd) (x peerHalf, err error) {
	x.bell = none
	i, fds, err := receiveIntroduction(from)
	defer func() {
		for _, f := range fds {
			unix.Close(f)
		}
	}()
	if err != nil {
		return x, err
	}
	if i.Side > 1 || i.Slot >= Slots || checkBytes(i.SessionBytes) != nil ||
		checkBytes(i.MemoryBytes) != nil {
		return x, ErrProtocol
	}
	x.who = Member{int(i.Side), int(i.Slot)}
	if !p.Present(x.who) {
		return x, fmt.Errorf("%w: no process owns the slot that it names", ErrProtocol)
	}
	for k, size := range []uint64{i.SessionBytes, i.MemoryBytes} {
		if err := checkMemory(fds[k], size); err != nil {
			return x, err
		}
	}
	// Writing to a descriptor of another kind might block.
	if flags, err := unix.FcntlInt(uintptr(fds[2]), unix.F_GETFL, 0); err != nil ||
		flags&unix.O_NONBLOCK == 0 {
		return x, fmt.Errorf("%w: its doorbell blocks", ErrProtocol)
	}
	if x.window, err = mapParts([]part{{fd(fds[0]), i.SessionBytes},
		{fd(fds[1]), i.MemoryBytes}}); err != nil {
		return x, err
	}
	x.bell = hold(fds[2])
	fds = fds[:2]
	return x, nil
}

// checkMemory judges memory that a peer has passed.
func checkMemory(f int, size uint64) error {
	if got, err := unix.FcntlInt(uintptr(f), unix.F_GET_SEALS, 0); err != nil ||
		got&seals != seals {
		return fmt.Errorf("%w: its window may shrink", ErrProtocol)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f, &st); err != nil || st.Size != int64(size) {
		return fmt.Errorf("%w: its window is of another size", ErrProtocol)
	}
	return nil
}

// join makes a link of two halves.
func join(s fd, h *half, x *peerHalf) *Session {
	h.session.f.close() // the peer has it
	l := &shm{socket: s, bell: h.bell, peerBell: x.bell, own: window.New(h.window),
		peerMem: x.window}
	l.peer = window.New(x.window).Far()
	return &Session{l, h.window}
}

// toSelf is the link of a process to itself: it writes into its own window.
func (p *Place) toSelf() (*Session, error) {
	h, err := p.newHalf()
	if err != nil {
		return nil, err
	}
	h.session.f.close()
	w := window.New(h.window)
	return &Session{&shm{socket: none, bell: h.bell, peerBell: none, own: w, peer: w.Far()},
		h.window}, nil
}

// Next returns the next link that is open: one that was wanted, or one that its peer
// wanted. The member of a link that cannot be had is returned with the error.
//
// Errors: ErrTimeout after d, or once Cancel was called; ErrLost if there is no such
// member or it does not answer; ErrGone, which stays; others of the system.
func (p *Place) Next(d time.Duration) (Member, *Session, error) {
	for end := time.Now().Add(d); ; {
		if m, s, err := p.startDials(); s != nil || err != nil {
			return m, s, err
		}
		ready, err := p.await(end)
		if err != nil {
			return p.self, nil, err
		}
		if m, s := p.receive(ready); s != nil {
			return m, s, nil
		}
		p.mu.Lock()
		ended := p.ended
		p.mu.Unlock()
		if ended || !time.Now().Before(end) {
			return p.self, nil, ErrTimeout
		}
	}
}

// startDials dials the members that are wanted, as far as it is due.
func (p *Place) startDials() (Member, *Session, error) {
	now := time.Now()
	p.mu.Lock()
	wants := p.wants
	p.wants = nil
	p.mu.Unlock()
	for _, m := range wants {
		if p.dials[m] == nil {
			p.dials[m] = &dial{at: now, until: now.Add(p.patience), socket: none,
				half: half{bell: none}}
		}
	}
	for m, x := range p.dials {
		if !now.Before(x.until) {
			p.drop(m)
			return m, nil, ErrLost
		}
		if x.socket != none || now.Before(x.at) {
			continue
		}
		if m == p.self {
			p.drop(m)
			s, err := p.toSelf()
			return m, s, err
		}
		switch err := p.begin(m, x); {
		case err == nil:
		case !errors.Is(err, ErrLost), !p.Present(m):
			p.drop(m)
			return m, nil, err
		default: // it is coming, or its backlog is full
			x.at = now.Add(dialPause)
		}
	}
	return Member{}, nil, nil
}

func (p *Place) begin(m Member, x *dial) error {
	s, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET,
		&unix.SockaddrUnix{Name: p.path(m)}, none, 0)
	if err != nil {
		return err
	}
	if x.half, err = p.newHalf(); err == nil {
		if err = p.introduce(s, &x.half); err == nil {
			x.socket = s
			return nil
		}
		x.half.close()
	}
	s.close()
	return err
}

// drop ends a dial.
func (p *Place) drop(m Member) {
	if x := p.dials[m]; x != nil {
		x.hangUp()
		delete(p.dials, m)
	}
}

// hangUp has a dial begin anew, when it is due.
func (x *dial) hangUp() {
	x.socket.close()
	x.half.close()
}

// await waits until something is to be done, and returns which descriptors are readable.
func (p *Place) await(end time.Time) (ready map[fd]bool, err error) {
	list := []unix.PollFd{{Fd: int32(p.wake), Events: unix.POLLIN}}
	if len(p.guests) < maxGuests {
		list = append(list, unix.PollFd{Fd: int32(p.listener), Events: unix.POLLIN})
	}
	for i := range p.guests {
		list = append(list, unix.PollFd{Fd: int32(p.guests[i].socket), Events: unix.POLLIN})
		end = earlier(end, p.guests[i].until)
	}
	for _, x := range p.dials {
		end = earlier(end, x.until)
		if x.socket == none {
			end = earlier(end, x.at)
			continue
		}
		list = append(list, unix.PollFd{Fd: int32(x.socket), Events: unix.POLLIN})
	}
	if _, err := poll(list, time.Until(end)); err != nil {
		return nil, err
	}
	if list[0].Revents&unix.POLLNVAL != 0 {
		return nil, ErrGone
	}
	ready = map[fd]bool{}
	for _, f := range list {
		if f.Revents != 0 {
			ready[fd(f.Fd)] = true
		}
	}
	return ready, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// receive takes arrived messages, until a link is open.
func (p *Place) receive(ready map[fd]bool) (Member, *Session) {
	if ready[p.wake] {
		var b [8]byte
		unix.Read(int(p.wake), b[:])
	}
	if ready[p.listener] {
		for len(p.guests) < maxGuests {
			n, _, err := unix.Accept4(int(p.listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != nil {
				break
			}
			p.guests = append(p.guests, guest{hold(n), time.Now().Add(p.patience)})
		}
	}
	now := time.Now()
	for i := 0; i < len(p.guests); i++ {
		g := p.guests[i]
		if !ready[g.socket] && now.Before(g.until) {
			continue
		}
		p.guests = append(p.guests[:i], p.guests[i+1:]...)
		i--
		if m, s := p.welcome(&g); s != nil {
			return m, s
		}
	}
	for m, x := range p.dials {
		if x.socket == none || !ready[x.socket] {
			continue
		}
		y, err := p.takeIntroduction(x.socket)
		if err == nil && y.who == m {
			delete(p.dials, m)
			return m, join(x.socket, &x.half, &y)
		}
		y.close()
		// It has ended, or it dials us: then it is among the guests.
		x.hangUp()
		x.at = now.Add(dialPause)
	}
	return Member{}, nil
}

func (x *peerHalf) close() {
	unmapParts(x.window)
	x.bell.close()
}

// welcome takes a guest's half, and answers with ours, unless we dial it ourselves and
// are to go on with that.
func (p *Place) welcome(g *guest) (Member, *Session) {
	y, err := p.takeIntroduction(g.socket)
	x := p.dials[y.who]
	if err != nil || y.who == p.self || x != nil && x.socket != none && p.self.before(y.who) {
		y.close()
		g.socket.close()
		return Member{}, nil
	}
	if x != nil && x.socket != none {
		x.hangUp()
		x.at = time.Now().Add(dialPause)
	}
	h, err := p.newHalf()
	if err == nil {
		if err = p.introduce(g.socket, &h); err != nil {
			h.close()
		}
	}
	if err != nil {
		y.close()
		g.socket.close()
		return Member{}, nil
	}
	p.drop(y.who)
	return y.who, join(g.socket, &h, &y)
}
