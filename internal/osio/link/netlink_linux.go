package link

import (
	"bytes"
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"verbena/internal/osio/held"
)

// gather is how long the listener waits for more before it tells of a change:
// what one command of an administrator does comes in several messages, such as
// the addresses that go when a link is taken down.
const gather = 10 * time.Millisecond

// dumpTries bounds how often a dump is begun anew that the kernel says was
// interrupted by a change.
const dumpTries = 8

// listener reads the kernel's messages on a goroutine of its own.
type listener struct {
	// immutable after listen
	socket *nl.NetlinkSocket
	tell   func(*listener, []Change)
	done   chan struct{} // closed when the goroutine has ended

	picture tracker // the goroutine's
}

// listen begins to listen in the calling thread's network namespace.
func listen(tell func(*listener, []Change)) (*listener, error) {
	s, err := subscribe()
	if err != nil {
		return nil, err
	}
	l := &listener{socket: s, tell: tell, done: make(chan struct{})}
	// What changes meanwhile waits in the socket, and differs from the picture
	// or does not.
	if l.picture, err = dump(); err != nil {
		l.closeSocket()
		return nil, err
	}
	go l.run()
	return l, nil
}

func subscribe() (*nl.NetlinkSocket, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err == nil {
		held.Add(s.GetFd())
	}
	return s, err
}

// close ends the goroutine.
func (l *listener) close() {
	l.closeSocket()
	<-l.done
}

func (l *listener) closeSocket() {
	held.Remove(l.socket.GetFd())
	l.socket.Close()
}

func (l *listener) run() {
	defer close(l.done)
	for {
		var c changes
		if l.read(0, &c) != nil {
			return
		}
		for deadline := time.Now().Add(gather); len(c) > 0; {
			left := time.Until(deadline)
			if left <= 0 || l.read(left, &c) != nil {
				break // a socket that failed fails again
			}
		}
		if len(c) > 0 {
			l.tell(l, c)
		}
	}
}

// read waits for a message, for ever if patience is 0, and applies it.
func (l *listener) read(patience time.Duration, c *changes) error {
	timeout := unix.NsecToTimeval(int64(patience))
	if err := l.socket.SetReceiveTimeout(&timeout); err != nil {
		return err
	}
	list, _, err := l.socket.Receive()
	if errors.Is(err, unix.ENOBUFS) { // messages were lost
		now, err := dump()
		if err == nil {
			l.picture.replace(now, c)
		}
		return nil // else the picture is old; the next messages are told of still
	}
	if err != nil {
		return err
	}
	for _, m := range list {
		if m, ok := parse(m.Header.Type, m.Data); ok {
			l.picture.apply(m, c)
		}
	}
	return nil
}

// dump asks the kernel for a picture of what there is.
func dump() (tracker, error) {
	var err error
	for range dumpTries {
		t := tracker{}
		if err = t.ask(unix.RTM_GETLINK, unix.RTM_NEWLINK); err == nil {
			err = t.ask(unix.RTM_GETADDR, unix.RTM_NEWADDR)
		}
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return t, err
		}
	}
	return nil, err
}

// ask adds the answers to one request for a dump.
func (t tracker) ask(question int, answer uint16) error {
	r := nl.NewNetlinkRequest(question, unix.NLM_F_DUMP)
	r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC)) // longer than struct ifaddrmsg, of which the family counts
	list, err := r.Execute(unix.NETLINK_ROUTE, answer)
	if err != nil {
		return err
	}
	var none changes
	for _, b := range list {
		if m, ok := parse(answer, b); ok {
			t.apply(m, &none)
		}
	}
	return nil
}

// parse reads a message without its header; false of those that do not matter.
func parse(kind uint16, b []byte) (message, bool) {
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLink(kind, b)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return parseAddr(kind, b)
	}
	return message{}, false
}

func parseLink(kind uint16, b []byte) (m message, ok bool) {
	if len(b) < unix.SizeofIfInfomsg {
		return m, false
	}
	info := nl.DeserializeIfInfomsg(b)
	if info.Family != unix.AF_UNSPEC { // a bridge's port: its end is not the interface's
		return m, false
	}
	const works = unix.IFF_UP | unix.IFF_RUNNING
	m = message{kind: linkIs, index: int(info.Index), running: info.Flags&works == works}
	if kind == unix.RTM_DELLINK {
		m.kind = linkGone
	}
	attrs, err := nl.ParseRouteAttr(b[unix.SizeofIfInfomsg:])
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_IFNAME {
			name, _, _ := bytes.Cut(a.Value, []byte{0})
			m.name = string(name)
		}
	}
	return m, err == nil && m.name != ""
}

// parseAddr takes IFA_LOCAL where it is there: of a point-to-point interface
// IFA_ADDRESS is the peer's.
func parseAddr(kind uint16, b []byte) (m message, ok bool) {
	if len(b) < unix.SizeofIfAddrmsg {
		return m, false
	}
	info := nl.DeserializeIfAddrmsg(b)
	m = message{kind: addrIs, index: int(info.Index)}
	if kind == unix.RTM_DELADDR {
		m.kind = addrGone
	}
	attrs, err := nl.ParseRouteAttr(b[unix.SizeofIfAddrmsg:])
	addr := netip.Addr{}
	for _, typ := range []uint16{unix.IFA_ADDRESS, unix.IFA_LOCAL} {
		if a, found := attribute(attrs, typ); found {
			addr = a
		}
	}
	m.addr = netip.PrefixFrom(addr, int(info.Prefixlen))
	return m, err == nil && addr.IsValid() && !addr.IsMulticast()
}

func attribute(attrs []syscall.NetlinkRouteAttr, typ uint16) (netip.Addr, bool) {
	for _, a := range attrs {
		if a.Attr.Type == typ {
			return netip.AddrFromSlice(a.Value)
		}
	}
	return netip.Addr{}, false
}
