// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/sockaddr"
)

// A Listener waits for peers over TCP. Each stream has to greet. Others may come meanwhile,
// so a silent stream keeps no peer out.
type Listener struct {
	f           fd
	cancel      fd // readable when Accept is to end; none
	windowBytes uint64
	admission   admission
	open        func(f fd, peerBytes uint64) (Link, error)
	greeting    []*greeting // those that have come, the oldest first
}

// admission says which peers may connect.
type admission struct {
	from   netip.Prefix // the zero Prefix: all addresses
	secret []byte       // nil: none
}

func (a admission) takes(addr netip.Addr) bool {
	return !a.from.IsValid() || a.from.Contains(addr.Unmap().WithZone(""))
}

// maxGreeting bounds the streams that have not greeted yet.
const maxGreeting = 16

// Accept returns the link of the next peer that greets within d. One that does not speak
// the protocol is sent away: ErrProtocol, ErrLost or ErrSecret.
func (l *Listener) Accept(d time.Duration) (Link, error) {
	for end := time.Now().Add(d); ; {
		until := end
		list := []unix.PollFd{{Fd: int32(l.f), Events: unix.POLLIN},
			{Fd: int32(l.cancel), Events: unix.POLLIN}}
		for _, g := range l.greeting {
			list = append(list, unix.PollFd{Fd: int32(g.f), Events: g.events()})
			if g.end.Before(until) {
				until = g.end
			}
		}
		if _, err := poll(list, time.Until(until)); err != nil {
			return nil, err
		}
		if list[1].Revents != 0 {
			return nil, ErrTimeout
		}
		if x, err := l.goOn(list[2:]); x != nil || err != nil {
			return x, err
		}
		if list[0].Revents == 0 && !time.Now().Before(end) {
			return nil, ErrTimeout
		}
		if list[0].Revents != 0 {
			if err := l.take(); err != nil {
				return nil, err
			}
		}
	}
}

// goOn continues the greeting of readable streams, and closes those past their deadline.
func (l *Listener) goOn(ready []unix.PollFd) (Link, error) {
	now := time.Now()
	for i, g := range l.greeting {
		done, err := false, error(nil)
		if ready[i].Revents != 0 {
			done, err = g.step()
		}
		if err == nil && !done && !now.Before(g.end) {
			err = ErrTimeout
		}
		if !done && err == nil {
			continue
		}
		l.greeting = append(l.greeting[:i:i], l.greeting[i+1:]...)
		switch {
		case done:
			l.sendAway() // there is one link at a time
			return l.open(g.f, g.theirs.WindowBytes)
		case err == ErrTimeout: // of no interest
			g.f.close()
			return nil, nil
		}
		g.f.close()
		return nil, err
	}
	return nil, nil
}

// take takes one stream.
func (l *Listener) take() error {
	n, sa, err := unix.Accept4(int(l.f), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNABORTED) ||
		errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("accept4", err)
	}
	f := hold(n)
	at, _ := sockaddr.AddrPort(sa)
	from := at.Addr()
	if !l.admission.takes(from) {
		f.close()
		return nil
	}
	g, err := newGreeting(f, l.windowBytes, true, l.admission.secret)
	if err != nil { // it has gone already
		f.close()
		return nil
	}
	g.from = from
	if len(l.greeting) == maxGreeting {
		l.makeRoom()
	}
	l.greeting = append(l.greeting, g)
	return nil
}

// makeRoom sends away the oldest of the address that has most streams here.
func (l *Listener) makeRoom() {
	of := map[netip.Addr]int{}
	for _, g := range l.greeting {
		of[g.from]++
	}
	victim := 0
	for i, g := range l.greeting {
		if of[g.from] > of[l.greeting[victim].from] {
			victim = i
		}
	}
	l.greeting[victim].f.close()
	l.greeting = append(l.greeting[:victim:victim], l.greeting[victim+1:]...)
}

func (l *Listener) sendAway() {
	for _, g := range l.greeting {
		g.f.close()
	}
	l.greeting = nil
}

// Close stops listening.
func (l *Listener) Close() error {
	l.sendAway()
	l.f.close()
	return nil
}
